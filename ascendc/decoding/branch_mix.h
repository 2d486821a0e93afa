// Branches of attention, multiplied by their gates and added up.
#pragma once

#include "ascendc/attention/row_store.h"

namespace nsa::ascend {

constexpr int32_t kBranches = 3;  // compressed, selected, window

struct BranchMixSizes {
  int64_t queries;
  int32_t heads;  // N1
  int32_t dim;    // Dv
};

// Bytes of the vector core's buffers, for kMixedRows heads of a query at a time.
constexpr int32_t kMixedRows = 32;
constexpr int32_t kMostMixedDim = 256;
struct BranchMixBuffers {
  uint32_t rows = kMixedRows * kMostMixedDim * 2;     // of a branch, twice; of the sum
  uint32_t gates = kMixedRows * 4;                    // twice
  uint32_t numbers = kMixedRows * kMostMixedDim * 4;  // of a branch and of the sum, float
  uint32_t spread = kMixedRows * kBlockBytes;

  __aicore__ constexpr uint32_t Total() const {
    return 3 * rows + 2 * gates + 2 * numbers + spread;
  }
};
static_assert(BranchMixBuffers().Total() <= kUbBytes);

// All vector cores share the heads of all queries. gates: float [queries, 3, N1]; branches:
// three of [queries, N1, Dv], `branch` elements apart; out: [queries, N1, Dv].
template <typename T>
class BranchMix {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const BranchMixSizes& sizes, GM_ADDR gates,
                              GM_ADDR branches, int64_t branch, GM_ADDR out) {
    s_ = sizes;
    branch_ = branch;
    gates_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(gates));
    branches_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(branches));
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(out));
    const BranchMixBuffers bytes;
    pipe->InitBuffer(rows_in_, 2, bytes.rows);
    pipe->InitBuffer(gates_in_, 2, bytes.gates);
    pipe->InitBuffer(rows_out_, 1, bytes.rows);
    pipe->InitBuffer(numbers_buffer_, bytes.numbers);
    pipe->InitBuffer(sum_buffer_, bytes.numbers);
    pipe->InitBuffer(spread_buffer_, bytes.spread);
  }

  __aicore__ inline void Process() {
    const int64_t core = AscendC::GetBlockIdx(), cores = 2 * AscendC::GetBlockNum();
    const int64_t tiles = CeilDiv(s_.heads, kMixedRows), all = s_.queries * tiles;
    for (int64_t at = all * core / cores; at < all * (core + 1) / cores; ++at) {
      const auto head = static_cast<int32_t>(at % tiles) * kMixedRows;
      Mix(at / tiles, head, static_cast<int32_t>(Min(kMixedRows, s_.heads - head)));
    }
  }

 private:
  __aicore__ inline void Mix(int64_t query, int32_t head, int32_t rows) {
    const auto x = numbers_buffer_.Get<float>(), sum = sum_buffer_.Get<float>();
    const auto spread = spread_buffer_.Get<float>();
    const int32_t floats = rows * s_.dim;
    for (int32_t branch = 0; branch < kBranches; ++branch) {
      Load(query, branch, head, rows);
      auto from = rows_in_.template DeQue<T>();
      auto gates = gates_in_.template DeQue<float>();
      const auto to = branch == 0 ? sum : x;
      SpreadRows(spread, gates, RoundUp(rows, kRowMultiple));
      AscendC::Cast(to, from, AscendC::RoundMode::CAST_NONE, floats);
      AscendC::PipeBarrier<PIPE_V>();
      rows_in_.FreeTensor(from);
      gates_in_.FreeTensor(gates);
      WithRowValue<true>(to, spread, rows, s_.dim, s_.dim);
      if (branch == 0) continue;
      AscendC::Add(sum, sum, x, floats);
      AscendC::PipeBarrier<PIPE_V>();
    }
    auto y = rows_out_.template AllocTensor<T>();
    RoundRows(y, sum, floats);
    rows_out_.EnQue(y);
    y = rows_out_.template DeQue<T>();
    AscendC::DataCopy(out_[(query * s_.heads + head) * s_.dim], y, static_cast<uint32_t>(floats));
    rows_out_.FreeTensor(y);
  }

  __aicore__ inline void Load(int64_t query, int32_t branch, int32_t head, int32_t rows) {
    auto x = rows_in_.template AllocTensor<T>();
    AscendC::DataCopy(x, branches_[branch * branch_ + (query * s_.heads + head) * s_.dim],
                      static_cast<uint32_t>(rows * s_.dim));
    rows_in_.EnQue(x);
    auto gates = gates_in_.template AllocTensor<float>();
    AscendC::DataCopyPadExtParams<float> padding;
    padding.isPad = true;
    padding.rightPadding = static_cast<uint8_t>(RoundUp(rows, kBlockFloats) - rows);
    AscendC::DataCopyPad(gates, gates_[(query * kBranches + branch) * s_.heads + head],
                         AscendC::DataCopyExtParams(1, static_cast<uint32_t>(rows * 4), 0, 0, 0),
                         padding);
    gates_in_.EnQue(gates);
  }

  BranchMixSizes s_{};
  int64_t branch_ = 0;
  AscendC::GlobalTensor<float> gates_;
  AscendC::GlobalTensor<T> branches_, out_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> rows_in_, gates_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> rows_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> numbers_buffer_, sum_buffer_, spread_buffer_;
};

}  // namespace nsa::ascend
