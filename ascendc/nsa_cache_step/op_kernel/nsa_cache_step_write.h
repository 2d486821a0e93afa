// New tokens of NsaCacheStep: queries and keys are rotated by their positions; keys and values go
// into the cache, or wait in the workspace for the rings.
#pragma once

#include "ascendc/attention/row_store.h"
#include "ascendc/common/pipe_order.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_rope.h"

namespace nsa::ascend {

// Heads of one token that are handled together.
struct StepTile {
  int32_t begin, count, dim;

  __aicore__ inline StepTile(int32_t tile, int32_t heads, int32_t dim_in)
      : begin(tile * StepTileHeads(dim_in)),
        count(static_cast<int32_t>(Min(StepTileHeads(dim_in), heads - begin))),
        dim(dim_in) {}
  __aicore__ inline int32_t floats() const { return count * dim; }
};

// All vector cores share the tiles of all tokens.
template <typename T>
class StepWrite {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaCacheStepArguments& g) {
    t_ = g.tiling;
    const StepWorkspace w(*t_);
    queries_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.new_query));
    keys_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.new_key));
    values_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.new_value));
    rotated_queries_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.step_workspace + w.queries));
    cache_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.selected));
    const int64_t begins[] = {w.raw_keys, w.raw_values, w.window_keys, w.window_values};
    for (int32_t i = 0; i < 4; ++i)
      fresh_[i].SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.step_workspace + begins[i]));
    const StepWriteBuffers bytes;
    pipe->InitBuffer(heads_in_, 2, bytes.tile);
    pipe->InitBuffer(heads_out_, 2, bytes.rounded);
    pipe->InitBuffer(first_buffer_, bytes.tile);
    pipe->InitBuffer(second_buffer_, bytes.tile);
    rope_.Init(pipe, g);
    rows_.Init(g, false);
    states_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(g.state));
    lengths_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(g.step_workspace + w.lengths));
    pipe->InitBuffer(lengths_buffer_, bytes.lengths);
  }

  __aicore__ inline void Process() {
    GatherLengths();
    const SplitTiling& p = t_->selected;
    const int64_t core = AscendC::GetBlockIdx(), cores = 2 * AscendC::GetBlockNum();
    const int64_t query_tiles = StepTiles(p.heads * p.group, p.dim);
    const int64_t key_tiles = StepTiles(p.heads, p.dim);
    const int64_t pair_tiles = key_tiles + StepTiles(p.heads, p.value_dim);
    const int64_t each = query_tiles + Destinations() * pair_tiles;
    const int64_t end = p.queries * each * (core + 1) / cores;
    for (int64_t at = p.queries * each * core / cores; at < end; ++at) {
      const int64_t token = at / each, tile = at % each - query_tiles;
      rows_.Seek(token);
      if (!rows_.written()) continue;
      if (tile < 0) {
        Query(token, static_cast<int32_t>(tile + query_tiles));
        continue;
      }
      const auto which = static_cast<Which>(tile / pair_tiles);
      const int64_t of_pair = tile % pair_tiles;
      if (of_pair < key_tiles) {
        Key(token, which, static_cast<int32_t>(of_pair));
      } else {
        Value(token, which, static_cast<int32_t>(of_pair - key_tiles));
      }
    }
  }

 private:
  enum class Which : int32_t { kSelected = 0, kRaw = 1, kWindow = 2 };

  // From the rows' states into the workspace.
  __aicore__ inline void GatherLengths() {
    const int64_t core = AscendC::GetBlockIdx(), cores = 2 * AscendC::GetBlockNum();
    const int64_t batch = t_->selected.batch, end = batch * (core + 1) / cores;
    const auto lengths = lengths_buffer_.Get<int64_t>();
    const auto apart = static_cast<uint32_t>((t_->state_size - 1) * 8);
    for (int64_t row = batch * core / cores; row < end; row += kStepLengths) {
      const auto rows = static_cast<uint16_t>(Min(kStepLengths, end - row));
      AscendC::DataCopyPad(lengths, states_[row * t_->state_size + t_->length_place],
                           AscendC::DataCopyExtParams(rows, 8, apart, 0, 0),
                           AscendC::DataCopyPadExtParams<int64_t>());
      Order<AscendC::HardEvent::MTE2_MTE3>();
      AscendC::DataCopyPad(lengths_[row], lengths, AscendC::DataCopyExtParams(rows, 8, 0, 0, 0));
      Order<AscendC::HardEvent::MTE3_MTE2>();
    }
  }

  __aicore__ inline int64_t Destinations() const {
    return t_->sparse == 0 ? 1 : t_->shared != 0 ? 2 : 3;
  }
  // Head of a new key or value: those of the compressed, the selected and the last branch lie
  // behind each other, unless they are the same.
  __aicore__ inline int64_t Source(int64_t token, Which which, int32_t head) const {
    const bool separate = t_->sparse != 0 && t_->shared == 0;
    const int64_t set = which == Which::kSelected ? 1 : which == Which::kRaw ? 0 : 2;
    return ((separate ? token * 3 + set : token) * t_->selected.heads) + head;
  }

  __aicore__ inline void Query(int64_t token, int32_t tile) {
    const SplitTiling& p = t_->selected;
    const StepTile h(tile, p.heads * p.group, p.dim);
    const int64_t at = (token * p.heads * p.group + h.begin) * p.dim;
    auto x = Rotated(queries_[at], h);
    AscendC::DataCopy(rotated_queries_[at], x, static_cast<uint32_t>(h.floats()));
    heads_out_.FreeTensor(x);
  }
  __aicore__ inline void Key(int64_t token, Which which, int32_t tile) {
    const StepTile h(tile, t_->selected.heads, t_->selected.dim);
    const auto from = keys_[Source(token, which, h.begin) * h.dim];
    // Compressed keys are rotated after the compression, which would average angles.
    if (which == Which::kRaw) {
      Store(Plain(from, h), h, token, which, 0);
    } else {
      Store(Rotated(from, h), h, token, which, 0);
    }
  }
  __aicore__ inline void Value(int64_t token, Which which, int32_t tile) {
    const StepTile h(tile, t_->selected.heads, t_->selected.value_dim);
    Store(Plain(values_[Source(token, which, h.begin) * h.dim], h), h, token, which, 1);
  }

  __aicore__ inline AscendC::LocalTensor<float> Load(const AscendC::GlobalTensor<float>& from,
                                                     const StepTile& h) {
    auto x = heads_in_.template AllocTensor<float>();
    AscendC::DataCopy(x, from, static_cast<uint32_t>(h.floats()));
    heads_in_.EnQue(x);
    return heads_in_.template DeQue<float>();
  }
  __aicore__ inline AscendC::LocalTensor<T> Rounded(const AscendC::LocalTensor<float>& x,
                                                    const StepTile& h) {
    auto y = heads_out_.template AllocTensor<T>();
    RoundRows(y, x, h.floats());
    heads_out_.EnQue(y);
    return heads_out_.template DeQue<T>();
  }
  __aicore__ inline AscendC::LocalTensor<T> Plain(const AscendC::GlobalTensor<float>& from,
                                                  const StepTile& h) {
    auto x = Load(from, h);
    auto y = Rounded(x, h);
    heads_in_.FreeTensor(x);
    return y;
  }
  __aicore__ inline AscendC::LocalTensor<T> Rotated(const AscendC::GlobalTensor<float>& from,
                                                    const StepTile& h) {
    rope_.Seek(rows_.position());
    auto x = Load(from, h);
    const auto y = first_buffer_.template Get<float>();
    rope_.Rotate(y, second_buffer_.template Get<float>(), x, h.count);
    heads_in_.FreeTensor(x);
    return Rounded(y, h);
  }
  // Every head of the token has a place of its own in the cache.
  __aicore__ inline void Store(AscendC::LocalTensor<T> x, const StepTile& h, int64_t token,
                               Which which, int32_t value) {
    if (which == Which::kSelected) {
      const StepPlaces& to = t_->selected_places;
      const int64_t begin =
          (value != 0 ? to.values_begin : to.keys_begin) + rows_.position() * h.dim;
      for (int32_t i = 0; i < h.count; ++i) {
        const int64_t head = rows_.row() * t_->selected.heads + h.begin + i;
        AscendC::DataCopy(cache_[head * t_->selected_head + begin],
                          x[static_cast<uint32_t>(i * h.dim)], static_cast<uint32_t>(h.dim));
      }
    } else {
      const int32_t place = (which == Which::kRaw ? 0 : 2) + value;
      AscendC::DataCopy(fresh_[place][(token * t_->selected.heads + h.begin) * h.dim], x,
                        static_cast<uint32_t>(h.floats()));
    }
    heads_out_.FreeTensor(x);
  }

  const NsaCacheStepTilingData* t_ = nullptr;
  StepRows rows_;
  StepRope rope_;
  AscendC::GlobalTensor<float> queries_, keys_, values_;
  AscendC::GlobalTensor<T> rotated_queries_, cache_, fresh_[4];
  AscendC::TQue<AscendC::TPosition::VECIN, 2> heads_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> heads_out_;
  AscendC::GlobalTensor<int64_t> states_, lengths_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> first_buffer_, second_buffer_, lengths_buffer_;
};

}  // namespace nsa::ascend
