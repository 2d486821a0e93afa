// The cube core of NsaSelectedAttention: S = Q K^T and O = P V of the selected blocks.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/selected_tile.h"
#include "ascendc/nsa_selected_attention/op_kernel/nsa_selected_attention_tiling.h"

namespace nsa::ascend {

struct NsaSelectedAttentionArguments {
  GM_ADDR query;
  GM_ADDR key;
  GM_ADDR value;
  GM_ADDR indices;
  GM_ADDR query_ends;
  GM_ADDR key_ends;
  GM_ADDR offsets;
  GM_ADDR softmax_max;
  GM_ADDR softmax_sum;
  GM_ADDR output;
  GM_ADDR workspace;
};

// Scores are kStepsAhead tiles ahead of the output, so that the vector cores always have some.
template <typename T>
class NsaSelectedAttentionCube {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaSelectedAttentionTilingData* tiling,
                              const NsaSelectedAttentionArguments& g) {
    const SelectionTiling& selection = tiling->selection;
    const auto dim = static_cast<int32_t>(tiling->dim);
    const auto value_dim = static_cast<int32_t>(tiling->value_dim);
    query_.heads = tiling->query_heads;
    key_.heads = value_.heads = selection.heads;
    query_.columns = key_.columns = dim;
    value_.columns = value_dim;
    query_.tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.query));
    key_.tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.key));
    value_.tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.value));
    const NsaSelectedAttentionWorkspace bytes(tiling->work.tile_rows * selection.group,
                                              selection.columns, value_dim);
    GM_ADDR mine =
        g.workspace + SelectionBytes(selection.rows) + AscendC::GetBlockIdx() * bytes.Total();
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.probabilities_begin));
    output_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine + bytes.output_begin));
    slot_scores_ = bytes.scores / 4;
    slot_output_ = bytes.output / 4;
    pipe->InitBuffer(l1_, kSelectedTileBytes);
    product_.Start(pipe);
    tile_.Start(l1_.template Get<T>(), &product_, &selection, g.workspace);
    ahead_.Init(&tiling->work, &tiling->mask, g.query_ends, g.key_ends, nullptr, g.offsets);
    behind_.Init(&tiling->work, &tiling->mask, g.query_ends, g.key_ends, nullptr, g.offsets);
  }

  __aicore__ inline void Process() {
    WorkItem item{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead_.Next(&item)) {
        tile_.Multiply(item, query_, key_, scores_[i % kSlots * slot_scores_]);
        HandOver<Handover::kScores>(i);
        left = 1;
      }
      const int64_t tile = i - kStepsAhead;
      if (tile < 0) {
        left = 1;
      } else if (behind_.Next(&item)) {
        Await<Handover::kProbabilities>(tile);
        tile_.Sum(item, probabilities_[tile % kSlots * slot_scores_], value_,
                  output_[tile % kSlots * slot_output_]);
        HandOver<Handover::kPartialOutput>(tile);
        left = 1;
      }
    }
    tile_.Finish();
    product_.Finish();
  }

 private:
  PackedRows<T> query_{}, key_{}, value_{};
  int64_t slot_scores_ = 0, slot_output_ = 0;
  AscendC::GlobalTensor<T> probabilities_;
  AscendC::GlobalTensor<float> scores_, output_;
  WorkItems ahead_, behind_;  // of the scores, of the output
  AscendC::TBuf<AscendC::TPosition::A1> l1_;
  TileProduct<T> product_;
  SelectedTile<T> tile_;
};

}  // namespace nsa::ascend
