// Windows that new tokens of NsaCacheStep have filled become compressed tokens.
#pragma once

#include "ascendc/attention/row_store.h"
#include "ascendc/common/pipe_order.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_rope.h"

namespace nsa::ascend {

// All vector cores share the heads of all windows. A window's tokens are in the ring up to those
// that are new, which are in the workspace.
template <typename T>
class StepCompress {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaCacheStepArguments& g) {
    t_ = g.tiling;
    g_ = &g;
    others_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.others));
    const StepCompressBuffers bytes(
        static_cast<int32_t>(Max(t_->selected.dim, t_->selected.value_dim)));
    pipe->InitBuffer(tokens_in_, 2, bytes.tokens);
    pipe->InitBuffer(encodings_in_, 2, bytes.encodings);
    pipe->InitBuffer(weights_in_, 2, bytes.weights);
    pipe->InitBuffer(row_out_, 2, bytes.rounded);
    pipe->InitBuffer(slice_buffer_, bytes.encodings);
    pipe->InitBuffer(weights_buffer_, 2 * bytes.weights);
    pipe->InitBuffer(rows_buffer_, 4 * bytes.row);
    rope_.Init(pipe, g);
    rows_.Init(g);
  }

  __aicore__ inline void Process() {
    const int64_t core = AscendC::GetBlockIdx(), cores = 2 * AscendC::GetBlockNum();
    const int32_t heads = t_->selected.heads;
    int64_t before = 0;  // heads of windows of the rows before
    for (int64_t row = 0; row < t_->selected.batch; ++row) {
      rows_.OpenRow(row);
      if (!rows_.Fits(rows_.length())) continue;
      const int64_t first = rows_.Windows(rows_.length());
      const int64_t all = (rows_.Windows(rows_.length() + rows_.count()) - first) * heads;
      // The core's are those whose number is its own, modulo the cores.
      const int64_t skipped = (core - before % cores + cores) % cores;
      for (int64_t at = skipped; at < all; at += cores)
        Window(first + at / heads, static_cast<int32_t>(at % heads));
      before += all;
    }
  }

 private:
  // The keys or the values of a window.
  struct KeyOrValue {
    GM_ADDR weight;
    GM_ADDR position;
    int64_t fresh;     // bytes of the workspace before the new tokens
    int64_t ring, to;  // elements of a head before the ring, and the compressed tokens
    int32_t dim;
  };

  __aicore__ inline void Window(int64_t window, int32_t head) {
    const StepWorkspace w(*t_);
    const int32_t dim = t_->selected.dim, value_dim = t_->selected.value_dim;
    const KeyOrValue key{g_->weight_k,
                         g_->position_k,
                         w.raw_keys,
                         t_->raw_places.keys_begin,
                         t_->compressed_places.keys_begin,
                         dim};
    Sum(key, window, head);
    rope_.Seek(window * t_->stride);
    rope_.Rotate(Row(2), Row(3), Row(0), 1);
    Store(key, Row(2), window, head);
    const KeyOrValue value{g_->weight_v,
                           g_->position_v,
                           w.raw_values,
                           t_->raw_places.values_begin,
                           t_->compressed_places.values_begin,
                           value_dim};
    Sum(value, window, head);
    Store(value, Row(0), window, head);
  }

  // Row(0) = round(sum of weight times token) + sum of weight times position encoding, rounded
  // where the operators of a whole sequence round.
  __aicore__ inline void Sum(const KeyOrValue& which, int64_t window, int32_t head) {
    const int32_t dim = which.dim;
    const auto d = static_cast<uint32_t>(dim);
    const auto slice = slice_buffer_.template Get<float>();
    const auto weights = weights_buffer_.template Get<float>();
    AscendC::Duplicate(Row(0), 0.0f, dim);
    AscendC::Duplicate(Row(1), 0.0f, dim);
    AscendC::PipeBarrier<PIPE_V>();
    for (int64_t first = 0; first < t_->block_size; first += kStepSlice) {
      const auto count = static_cast<int32_t>(Min(kStepSlice, t_->block_size - first));
      LoadTokens(which, window * t_->stride + first, count, head);
      LoadWeights(which, first, count, head);
      auto x = tokens_in_.template DeQue<T>();
      auto full = weights_in_.template DeQue<float>();
      auto encodings = encodings_in_.template DeQue<float>();
      AscendC::Cast(slice, x, AscendC::RoundMode::CAST_NONE, count * dim);
      RoundWeights(weights, full, count);
      tokens_in_.FreeTensor(x);
      Order<AscendC::HardEvent::V_S>();
      for (int32_t i = 0; i < count; ++i) {
        const auto at = static_cast<uint32_t>(i * kBlockFloats), row = static_cast<uint32_t>(i) * d;
        AscendC::Axpy(Row(0), slice[row], weights.GetValue(at), dim);
        AscendC::Axpy(Row(1), encodings[row], full.GetValue(at), dim);
        AscendC::PipeBarrier<PIPE_V>();
      }
      // The next weights come where these were read.
      Order<AscendC::HardEvent::S_V>();
      weights_in_.FreeTensor(full);
      encodings_in_.FreeTensor(encodings);
    }
    auto y = row_out_.template AllocTensor<T>();
    RoundRows(y, Row(0), dim);
    AscendC::Cast(Row(0), y, AscendC::RoundMode::CAST_NONE, dim);
    AscendC::PipeBarrier<PIPE_V>();
    row_out_.FreeTensor(y);
    AscendC::Add(Row(0), Row(0), Row(1), dim);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void LoadTokens(const KeyOrValue& which, int64_t first, int32_t count,
                                    int32_t head) {
    const int32_t heads = t_->selected.heads, dim = which.dim;
    const int64_t places = t_->raw_places.places;
    const int64_t ring = (rows_.row() * heads + head) * t_->others_head + which.ring;
    fresh_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_->step_workspace + which.fresh));
    auto x = tokens_in_.template AllocTensor<T>();
    for (int32_t done = 0, run = 0; done < count; done += run) {
      const int64_t token = first + done, old = rows_.length() - token;
      const auto to = x[static_cast<uint32_t>(done * dim)];
      if (old > 0) {
        const int64_t place = token % places;
        run = static_cast<int32_t>(Min(Min(old, places - place), count - done));
        CopyRowsIn(to, others_[ring + place * dim], dim, run, dim, dim);
      } else {
        run = count - done;
        const int64_t at = rows_.begin() - old;
        CopyRowsIn(to, fresh_[(at * heads + head) * dim], int64_t{heads} * dim, run, dim, dim);
      }
    }
    tokens_in_.EnQue(x);
  }
  __aicore__ inline void LoadWeights(const KeyOrValue& which, int64_t first, int32_t count,
                                     int32_t head) {
    const int32_t heads = t_->selected.heads, dim = which.dim;
    weight_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(which.weight));
    position_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(which.position));
    auto full = weights_in_.template AllocTensor<float>();
    AscendC::DataCopyPadExtParams<float> padding;
    padding.isPad = true;
    padding.rightPadding = kBlockFloats - 1;
    AscendC::DataCopyPad(full, weight_[first * heads + head],
                         AscendC::DataCopyExtParams(static_cast<uint16_t>(count), sizeof(float),
                                                    static_cast<uint32_t>((heads - 1) * 4), 0, 0),
                         padding);
    weights_in_.EnQue(full);
    auto encodings = encodings_in_.template AllocTensor<float>();
    CopyRowsIn(encodings, position_[(first * heads + head) * dim], int64_t{heads} * dim, count, dim,
               dim);
    encodings_in_.EnQue(encodings);
  }
  // In the data type of the tokens, as the operator of a whole sequence gets them.
  __aicore__ inline void RoundWeights(const AscendC::LocalTensor<float>& to,
                                      const AscendC::LocalTensor<float>& from, int32_t count) {
    const int32_t floats = count * kBlockFloats;
    const auto rounded = to[kStepSlice * kBlockFloats].template ReinterpretCast<T>();
    RoundRows(rounded, from, floats);
    AscendC::Cast(to, rounded, AscendC::RoundMode::CAST_NONE, floats);
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Store(const KeyOrValue& which, const AscendC::LocalTensor<float>& x,
                               int64_t window, int32_t head) {
    auto y = row_out_.template AllocTensor<T>();
    RoundRows(y, x, which.dim);
    row_out_.EnQue(y);
    y = row_out_.template DeQue<T>();
    const int64_t at = (rows_.row() * t_->selected.heads + head) * t_->others_head + which.to;
    AscendC::DataCopy(others_[at + window * which.dim], y, static_cast<uint32_t>(which.dim));
    row_out_.FreeTensor(y);
  }

  __aicore__ inline AscendC::LocalTensor<float> Row(int32_t i) {
    const int64_t dim = Max(t_->selected.dim, t_->selected.value_dim);
    return rows_buffer_.template Get<float>()[static_cast<uint32_t>(i * dim)];
  }

  const NsaCacheStepTilingData* t_ = nullptr;
  const NsaCacheStepArguments* g_ = nullptr;
  StepRows rows_;
  StepRope rope_;
  AscendC::GlobalTensor<T> others_, fresh_;
  AscendC::GlobalTensor<float> weight_, position_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> tokens_in_, encodings_in_, weights_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> row_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> slice_buffer_, weights_buffer_, rows_buffer_;
};

}  // namespace nsa::ascend
