// The last stage, after the branches have read the cache: it writes the new tokens into the rings
// and raises the lengths.
#pragma once

#include "ascendc/common/pipe_order.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_write.h"

namespace nsa::ascend {

// The last tokens of every row go from the workspace into a ring, as many as it has places.
template <typename T>
class StepRing {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaCacheStepArguments& g) {
    t_ = g.tiling;
    g_ = &g;
    others_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.others));
    pipe->InitBuffer(heads_, kStepTileFloats * 2);
  }

  __aicore__ inline void Process() {
    const StepWorkspace w(*t_);
    const SplitTiling& p = t_->selected;
    Fill(w.raw_keys, t_->raw_places, t_->raw_places.keys_begin, p.dim);
    Fill(w.raw_values, t_->raw_places, t_->raw_places.values_begin, p.value_dim);
    if (t_->shared != 0) return;
    Fill(w.window_keys, t_->window_places, t_->window_places.keys_begin, p.dim);
    Fill(w.window_values, t_->window_places, t_->window_places.values_begin, p.value_dim);
  }

 private:
  __aicore__ inline void Fill(int64_t from, const StepPlaces& ring, int64_t begin, int32_t dim) {
    const SplitTiling& p = t_->selected;
    fresh_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g_->step_workspace + from));
    StepRows rows;
    rows.Init(*g_);
    const int64_t core = AscendC::GetBlockIdx(), cores = 2 * AscendC::GetBlockNum();
    const int64_t tiles = StepTiles(p.heads, dim), end = p.queries * tiles * (core + 1) / cores;
    for (int64_t at = p.queries * tiles * core / cores; at < end; ++at) {
      const int64_t token = at / tiles;
      rows.Seek(token);
      const bool stays = rows.position() >= rows.length() + rows.count() - ring.places;
      if (!rows.written() || !stays) continue;
      const StepTile h(static_cast<int32_t>(at % tiles), p.heads, dim);
      const auto x = heads_.template Get<T>();
      AscendC::DataCopy(x, fresh_[(token * p.heads + h.begin) * dim],
                        static_cast<uint32_t>(h.floats()));
      Order<AscendC::HardEvent::MTE2_MTE3>();
      const int64_t place = begin + rows.position() % ring.places * dim;
      for (int32_t i = 0; i < h.count; ++i) {
        const int64_t head = rows.row() * p.heads + h.begin + i;
        AscendC::DataCopy(others_[head * t_->others_head + place],
                          x[static_cast<uint32_t>(i * dim)], static_cast<uint32_t>(dim));
      }
      Order<AscendC::HardEvent::MTE3_MTE2>();
    }
  }

  const NsaCacheStepTilingData* t_ = nullptr;
  const NsaCacheStepArguments* g_ = nullptr;
  AscendC::GlobalTensor<T> fresh_, others_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> heads_;
};

// The lengths of the rows after the step, when no core needs those before it any more.
class StepState {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaCacheStepArguments& g) {
    t_ = g.tiling;
    state_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(g.state));
    pipe->InitBuffer(row_, static_cast<uint32_t>((t_->state_size * 8 + 31) / 32 * 32));
    rows_.Init(g);
  }

  __aicore__ inline void Process() {
    const int64_t core = AscendC::GetBlockIdx(), cores = 2 * AscendC::GetBlockNum();
    const int64_t batch = t_->selected.batch;
    for (int64_t row = batch * core / cores; row < batch * (core + 1) / cores; ++row) {
      rows_.SeekRow(row);
      Raise(row);
    }
  }

 private:
  __aicore__ inline void Raise(int64_t row) {
    const auto state = row_.Get<int64_t>();
    const auto length = static_cast<uint32_t>(t_->length_place), most = length + 1;
    const AscendC::DataCopyExtParams bytes(1, static_cast<uint32_t>(t_->state_size * 8), 0, 0, 0);
    AscendC::DataCopyPad(state, state_[row * t_->state_size], bytes,
                         AscendC::DataCopyPadExtParams<int64_t>());
    Order<AscendC::HardEvent::MTE2_S>();
    // States of rows share lines of the data cache, of which other cores have written some by now.
    const int64_t before = state.GetValue(length);
    if (rows_.Fits(before)) {
      const int64_t after = before + rows_.count();
      if (after > before) state.SetValue(static_cast<uint32_t>(t_->layer_place), t_->layer);
      state.SetValue(length, after);
      state.SetValue(most, after == 0 ? 0 : Max(after, state.GetValue(most)));
    }
    Order<AscendC::HardEvent::S_MTE3>();
    AscendC::DataCopyPad(state_[row * t_->state_size], state, bytes);
    // The next row's state comes into the same memory.
    Order<AscendC::HardEvent::MTE3_MTE2>();
  }

  const NsaCacheStepTilingData* t_ = nullptr;
  StepRows rows_;
  AscendC::GlobalTensor<int64_t> state_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> row_;
};

}  // namespace nsa::ascend
