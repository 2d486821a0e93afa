// The cube core of FlashAttentionScoreGrad: S = Q K^T and dP = dO V^T of every step, then dQ += dS
// K for a tile of queries, dV += P^T dO and dK += dS^T Q for one of keys.
#pragma once

#include "ascendc/attention/grad_steps.h"
#include "ascendc/attention/handover.h"
#include "ascendc/attention/tile_product.h"
#include "ascendc/flash_attention_score_grad/op_kernel/flash_attention_score_grad_parts.h"

namespace nsa::ascend {

struct FlashAttentionScoreGradArguments {
  GM_ADDR query;
  GM_ADDR key;
  GM_ADDR value;
  GM_ADDR output_grad;
  GM_ADDR output;
  GM_ADDR pse;
  GM_ADDR drop;
  GM_ADDR q_starts;
  GM_ADDR kv_starts;
  GM_ADDR mask;
  GM_ADDR prefix;
  GM_ADDR query_ends;
  GM_ADDR key_ends;
  GM_ADDR offsets;
  GM_ADDR softmax_max;
  GM_ADDR softmax_sum;
  GM_ADDR softmax_sum_grad;
  GM_ADDR query_grad;
  GM_ADDR key_grad;
  GM_ADDR value_grad;
  GM_ADDR pse_grad;
  GM_ADDR sink_grad;
  GM_ADDR sink;
  GM_ADDR workspace;
};

template <typename T>
class FlashAttentionScoreGradCube {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const FlashAttentionScoreGradTilingData* tiling,
                              const FlashAttentionScoreGradArguments& g) {
    t_ = tiling;
    dim_ = static_cast<int32_t>(t_->dim);
    value_dim_ = static_cast<int32_t>(t_->value_dim);
    tile_rows_ = static_cast<int32_t>(t_->queries.tile_rows);
    tiling_ = GradTiles(static_cast<int32_t>(Max(dim_, value_dim_)), sizeof(T));
    query_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.query));
    key_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.key));
    value_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.value));
    output_grad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.output_grad));
    const FlashAttentionScoreGradWorkspace bytes(tile_rows_, dim_, value_dim_, sizeof(T),
                                                 t_->pse_tile);
    GM_ADDR mine = g.workspace + FlashAttentionScoreGradWorkspace::SharedBytes(*t_) +
                   AscendC::GetBlockIdx() * bytes.Total();
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    product_grads_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float*>(mine + bytes.product_grads_begin));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.probabilities_begin));
    score_grads_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.score_grads_begin));
    sums_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine + bytes.sums_begin));
    sums_floats_ = bytes.sums / 4;
    key_parts_.Init(t_, g.workspace, dim_, value_dim_, sizeof(T));
    pipe->InitBuffer(l1_, 2 * (kQuerySlotBytes + kKeySlotBytes + kProbabilitySlotBytes));
    const auto l1 = l1_.template Get<T>();
    tiles_.Start(l1, kQuerySlotBytes);
    rows_.Start(l1[2 * kQuerySlotBytes / sizeof(T)], kKeySlotBytes);
    blocks_.Start(l1[2 * (kQuerySlotBytes + kKeySlotBytes) / sizeof(T)], kProbabilitySlotBytes);
    product_.Start(pipe);
    ahead_.Init(&t_->queries, &t_->keys, &t_->mask, g.query_ends, g.key_ends, g.prefix, g.offsets);
    behind_.Init(&t_->queries, &t_->keys, &t_->mask, g.query_ends, g.key_ends, g.prefix, g.offsets);
  }

  __aicore__ inline void Process() {
    GradStep step{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead_.Next(&step)) {
        if (!step.empty()) Scores(step);
        left = 1;
      }
      if (i < kStepsAhead) {
        left = 1;
      } else if (behind_.Next(&step)) {
        if (!step.empty()) Gradients(step);
        left = 1;
      }
    }
    tiles_.Finish();
    rows_.Finish();
    blocks_.Finish();
    product_.Finish();
  }

 private:
  // Some rows of one of the tensors, from the query or key `row` of the step's segment on.
  struct Source {
    AscendC::GlobalTensor<T> from;
    int64_t pitch;
    int32_t columns;
  };
  __aicore__ inline Source SourceOf(const AscendC::GlobalTensor<T>& tensor, const TensorStrides& s,
                                    const GradStep& step, int64_t start, int64_t head,
                                    int32_t columns) const {
    const int64_t batch = t_->queries.packed != 0 ? 0 : step.item.segment * s.batch;
    return {tensor[batch + start * s.row + head * s.head], s.row, columns};
  }
  __aicore__ inline Source Queries(const GradStep& step) const {
    return SourceOf(query_, t_->query, step, step.item.query_start + step.row, step.item.head,
                    dim_);
  }
  __aicore__ inline Source OutputGrads(const GradStep& step) const {
    return SourceOf(output_grad_, t_->output, step, step.item.query_start + step.row,
                    step.item.head, value_dim_);
  }
  __aicore__ inline Source Keys(const GradStep& step) const {
    return SourceOf(key_, t_->key, step, step.item.key_start + step.key,
                    step.item.head / t_->queries.group, dim_);
  }
  __aicore__ inline Source Values(const GradStep& step) const {
    return SourceOf(value_, t_->value, step, step.item.key_start + step.key,
                    step.item.head / t_->queries.group, value_dim_);
  }
  template <typename Ring>
  __aicore__ inline L1Matrix<T> Copy(Ring& ring, const Source& source, int32_t begin,
                                     int32_t rows) {
    const auto matrix = CopyRows(ring.BeginFill(), source.from[begin * source.pitch], source.pitch,
                                 rows, source.columns);
    ring.EndFill();
    return matrix;
  }

  // Elements between the rows of a step's scores.
  __aicore__ inline int32_t Pitch(const GradStep& step) const {
    return step.by_keys ? tile_rows_ : kStepKeys;
  }
  __aicore__ inline int64_t Slot(const GradStep& step) const {
    return step.index % kSlots * tile_rows_ * kStepKeys;
  }

  __aicore__ inline void Scores(const GradStep& step) {
    const int32_t tile_rows = step.by_keys ? step.keys : step.rows;
    if (step.first) {
      tile_ = Copy(tiles_, step.by_keys ? Keys(step) : Queries(step), 0, tile_rows);
      other_tile_ = Copy(tiles_, step.by_keys ? Values(step) : OutputGrads(step), 0, tile_rows);
      tiles_.BeginUse();
      tiles_.BeginUse(1);
    }
    Multiply(step, tile_, step.by_keys ? Queries(step) : Keys(step), scores_[Slot(step)], dim_);
    Multiply(step, other_tile_, step.by_keys ? OutputGrads(step) : Values(step),
             product_grads_[Slot(step)], value_dim_);
    if (step.last) {
      tiles_.EndUse();
      tiles_.EndUse();
    }
    HandOver<Handover::kScores>(step.index);
  }

  // Products of the rows of a tile with those of the step on the other side; queries are the rows
  // of the result.
  __aicore__ inline void Multiply(const GradStep& step, L1Matrix<T> tile, const Source& source,
                                  const AscendC::GlobalTensor<float>& to, int32_t depth) {
    const int32_t count = step.by_keys ? step.rows : step.keys, pitch = Pitch(step);
    for (int32_t block = 0; block < count; block += tiling_.block_rows) {
      const int32_t rows = static_cast<int32_t>(Min(tiling_.block_rows, count - block));
      L1Matrix<T> others = Copy(rows_, source, block, rows);
      rows_.BeginUse();
      for (others.row = 0; others.row < rows; others.row += kTileKeys) {
        const int32_t here = static_cast<int32_t>(Min(kTileKeys, rows - others.row));
        const int32_t at = block + others.row;
        product_.BeginResult();
        if (step.by_keys) {
          product_.template Add<Form::kStraight, Form::kStraight>(others, tile, here, step.keys,
                                                                  depth);
          product_.Store(to[at * pitch], pitch, here, step.keys);
        } else {
          product_.template Add<Form::kStraight, Form::kStraight>(tile, others, step.rows, here,
                                                                  depth);
          product_.Store(to[at], pitch, step.rows, here);
        }
      }
      rows_.EndUse();
    }
  }

  __aicore__ inline void Gradients(const GradStep& step) {
    Await<Handover::kProbabilities>(step.index);
    const auto sums = sums_[step.tile % kSlots * sums_floats_];
    const auto score_grads = score_grads_[Slot(step)];
    if (step.by_keys) {
      const bool apart = key_parts_.Used();
      Sum<Form::kTransposed>(step, score_grads, Queries(step),
                             apart ? key_parts_.Keys(step) : sums);
      Sum<Form::kTransposed>(
          step, probabilities_[Slot(step)], OutputGrads(step),
          apart ? key_parts_.Values(step) : sums[int64_t{tile_rows_} * RoundUp(dim_, 16)]);
      if (apart) return;
    } else {
      Sum<Form::kStraight>(step, score_grads, Keys(step), sums);
    }
    if (step.last) HandOver<Handover::kPartialOutput>(step.tile);
  }

  // to += factors times the step's rows on the other side; the first step of a tile replaces it.
  template <Form form>
  __aicore__ inline void Sum(const GradStep& step, const AscendC::GlobalTensor<T>& factors,
                             const Source& source, const AscendC::GlobalTensor<float>& to) {
    constexpr bool by_keys = form == Form::kTransposed;
    const int32_t count = by_keys ? step.rows : step.keys, pitch = Pitch(step);
    const int32_t m = by_keys ? step.keys : step.rows;
    const int32_t n = RoundUp(source.columns, kBlockBytes / sizeof(T));
    const int32_t first = tiling_.SumColumns(n);
    const bool halves = first < n;
    product_.BeginResult();
    if (halves) {
      product_.SwapResults();
      product_.BeginResult();
      product_.SwapResults();
    }
    for (int32_t block = 0; block < count; block += tiling_.block_rows) {
      const int32_t rows = static_cast<int32_t>(Min(tiling_.block_rows, count - block));
      L1Matrix<T> others = Copy(rows_, source, block, rows);
      const L1Matrix<T> mine = by_keys ? Copy(blocks_, {factors[block * pitch], pitch, m}, 0, rows)
                                       : Copy(blocks_, {factors[block], pitch, rows}, 0, m);
      rows_.BeginUse();
      blocks_.BeginUse();
      product_.template Add<form, Form::kTransposed>(mine, others, m, first, rows);
      if (halves) {
        product_.SwapResults();
        others.column = first;
        product_.template Add<form, Form::kTransposed>(mine, others, m, n - first, rows);
        product_.SwapResults();
      }
      rows_.EndUse();
      blocks_.EndUse();
    }
    AddOrReplace(step, to, n, m, first);
    if (halves) AddOrReplace(step, to[first], n, m, n - first);
  }
  __aicore__ inline void AddOrReplace(const GradStep& step, const AscendC::GlobalTensor<float>& to,
                                      int32_t pitch, int32_t m, int32_t n) {
    if (step.first) {
      product_.Store(to, pitch, m, n);
    } else {
      product_.AddTo(to, pitch, m, n);
    }
  }

  const FlashAttentionScoreGradTilingData* t_ = nullptr;
  GradTiles tiling_{16, sizeof(T)};
  int32_t dim_ = 0, value_dim_ = 0, tile_rows_ = 0;
  int64_t sums_floats_ = 0;
  KeyParts key_parts_;
  GradSteps ahead_, behind_;  // of the scores, of the gradients
  AscendC::GlobalTensor<T> query_, key_, value_, output_grad_, probabilities_, score_grads_;
  AscendC::GlobalTensor<float> scores_, product_grads_, sums_;
  AscendC::TBuf<AscendC::TPosition::A1> l1_;
  L1Ring<T, 2, 0> tiles_;
  L1Ring<T, 2, 2> rows_;    // of the other side
  L1Ring<T, 2, 4> blocks_;  // of P and dS
  L1Matrix<T> tile_{}, other_tile_{};
  TileProduct<T> product_;
};

}  // namespace nsa::ascend
