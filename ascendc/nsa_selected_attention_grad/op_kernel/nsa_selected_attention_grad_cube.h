// The cube core of NsaSelectedAttentionGrad: S = Q K^T and dP = dO V^T, then dQ = dS K for a tile
// of queries, and dV = P^T dO and dK = dS^T Q for a block of keys.
#pragma once

#include "ascendc/attention/block_queries.h"
#include "ascendc/attention/handover.h"
#include "ascendc/attention/selected_tile.h"
#include "ascendc/nsa_selected_attention_grad/op_kernel/nsa_selected_attention_grad_tiling.h"

namespace nsa::ascend {

struct NsaSelectedAttentionGradArguments {
  GM_ADDR query;
  GM_ADDR key;
  GM_ADDR value;
  GM_ADDR output;
  GM_ADDR output_grad;
  GM_ADDR softmax_max;
  GM_ADDR softmax_sum;
  GM_ADDR softmax_sum_grad;
  GM_ADDR indices;
  GM_ADDR query_ends;
  GM_ADDR key_ends;
  GM_ADDR offsets;
  GM_ADDR query_grad;
  GM_ADDR key_grad;
  GM_ADDR value_grad;
  GM_ADDR workspace;
};

template <typename T>
class NsaSelectedAttentionGradCube {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe,
                              const NsaSelectedAttentionGradTilingData* tiling,
                              const NsaSelectedAttentionGradArguments& g) {
    t_ = tiling;
    g_ = g;
    group_ = static_cast<int32_t>(t_->selection.group);
    const auto dim = static_cast<int32_t>(t_->dim);
    const auto value_dim = static_cast<int32_t>(t_->value_dim);
    const auto rows = [](GM_ADDR tensor, int64_t heads, int32_t columns) __aicore__ {
      PackedRows<T> packed{{}, heads, columns};
      packed.tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(tensor));
      return packed;
    };
    query_ = rows(g.query, t_->query_heads, dim);
    key_ = rows(g.key, t_->selection.heads, dim);
    value_ = rows(g.value, t_->selection.heads, value_dim);
    output_grad_ = rows(g.output_grad, t_->query_heads, value_dim);
    const NsaSelectedAttentionGradWorkspace bytes(*t_);
    GM_ADDR mine = g.workspace + bytes.parts_begin + AscendC::GetBlockIdx() * bytes.each;
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    product_grads_.SetGlobalBuffer(
        reinterpret_cast<__gm__ float*>(mine + bytes.product_grads_begin));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.probabilities_begin));
    score_grads_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine + bytes.score_grads_begin));
    sums_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine + bytes.sums_begin));
    counts_ = g.workspace + bytes.counts_begin;
    queries_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(g.workspace + bytes.queries_begin));
    slot_scores_ = bytes.scores / 4;
    slot_sums_ = bytes.sums / 4;
    pipe->InitBuffer(l1_, static_cast<uint32_t>(
                              Max(kSelectedTileBytes,
                                  2 * (kBlockSlotBytes + kGatheredSlotBytes + kFactorSlotBytes))));
    product_.Start(pipe);
  }

  __aicore__ inline void Process() {
    QueryGradients();
    BlockGradients();
    product_.Finish();
  }

 private:
  __aicore__ inline int64_t Slot(int64_t step) const { return step % kSlots * slot_scores_; }

  __aicore__ inline void QueryGradients() {
    WorkItems ahead, behind;
    ahead.Init(&t_->queries, &t_->mask, g_.query_ends, g_.key_ends, nullptr, g_.offsets);
    behind.Init(&t_->queries, &t_->mask, g_.query_ends, g_.key_ends, nullptr, g_.offsets);
    SelectedTile<T> tile;
    tile.Start(l1_.template Get<T>(), &product_, &t_->selection, g_.workspace);
    WorkItem item{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead.Next(&item)) {
        tile.Multiply(item, query_, key_, scores_[Slot(i)]);
        tile.Multiply(item, output_grad_, value_, product_grads_[Slot(i)]);
        HandOver<Handover::kScores>(i);
        left = 1;
      }
      const int64_t done = i - kStepsAhead;
      if (done < 0) {
        left = 1;
      } else if (behind.Next(&item)) {
        Await<Handover::kProbabilities>(done);
        tile.Sum(item, score_grads_[Slot(done)], key_, sums_[done % kSlots * slot_sums_]);
        HandOver<Handover::kPartialOutput>(done);
        left = 1;
      }
    }
    tile.Finish();
  }

  __aicore__ inline void BlockGradients() {
    const int32_t most = BlockStepQueries(group_);
    BlockSteps ahead, behind;
    ahead.Init(most, &t_->blocks, &t_->mask, g_.query_ends, g_.key_ends, g_.offsets, counts_);
    behind.Init(most, &t_->blocks, &t_->mask, g_.query_ends, g_.key_ends, g_.offsets, counts_);
    const auto l1 = l1_.template Get<T>();
    tiles_.Start(l1, kBlockSlotBytes);
    rows_.Start(l1[2 * kBlockSlotBytes / sizeof(T)], kGatheredSlotBytes);
    factors_.Start(l1[2 * (kBlockSlotBytes + kGatheredSlotBytes) / sizeof(T)], kFactorSlotBytes);
    BlockStep step{};
    for (int64_t i = 0, left = 1; left > 0; ++i) {
      left = 0;
      if (ahead.Next(&step)) {
        if (step.queries > 0) BlockScores(step);
        left = 1;
      }
      if (i < kStepsAhead) {
        left = 1;
      } else if (behind.Next(&step)) {
        if (step.queries > 0) SumBlock(step);
        left = 1;
      }
    }
    tiles_.Finish();
    rows_.Finish();
    factors_.Finish();
  }

  __aicore__ inline void BlockScores(const BlockStep& step) {
    const WorkItem& item = step.tile.item;
    if (step.first) {
      keys_ = CopyBlock(item, key_);
      values_ = CopyBlock(item, value_);
      tiles_.BeginUse();
      tiles_.BeginUse(1);
    }
    MultiplyGathered(step, query_, keys_, scores_[Slot(step.index)]);
    MultiplyGathered(step, output_grad_, values_, product_grads_[Slot(step.index)]);
    if (step.last) {
      tiles_.EndUse();
      tiles_.EndUse();
    }
    HandOver<Handover::kScores>(step.index);
  }

  __aicore__ inline L1Matrix<T> CopyBlock(const WorkItem& item, const PackedRows<T>& from) {
    const auto matrix = CopyRows(tiles_.BeginFill(), from.At(item.key_start + item.row, item.head),
                                 from.pitch(), item.rows, from.columns);
    tiles_.EndFill();
    return matrix;
  }

  // Queries of the part of a step that begins with its query `at`.
  __aicore__ inline int32_t PartOf(const BlockStep& step, int32_t at) const {
    return static_cast<int32_t>(Min(BlockPartQueries(group_), step.queries - at));
  }

  // The rows of some queries of a step, one below the other.
  __aicore__ inline L1Matrix<T> Gather(const BlockStep& step, const PackedRows<T>& from, int32_t at,
                                       int32_t queries) {
    constexpr int32_t kC0 = kBlockBytes / sizeof(T);
    const WorkItem& item = step.tile.item;
    const int32_t rows = queries * group_, padded = RoundUp(rows, 16);
    const auto width = static_cast<uint16_t>(from.columns);
    const auto to = rows_.BeginFill();
    int64_t token = 0;
    const auto copy = [&](int32_t row, int64_t head, int32_t count) __aicore__ {
      AscendC::DataCopy(to[static_cast<uint32_t>(row * kC0)], from.At(token, head),
                        AscendC::Nd2NzParams(1, static_cast<uint16_t>(count), width, 0, width,
                                             static_cast<uint16_t>(padded), 1, 0));
    };
    for (int32_t i = 0; i < queries; ++i) {
      token =
          item.query_start + queries_.GetValue(static_cast<uint64_t>(step.first_query + at + i));
      copy(i * group_, item.head * group_, group_);
    }
    // The cube would take a single row for a vector.
    if (rows % 16 == 1) copy(rows, item.head * group_ + group_ - 1, 1);
    rows_.EndFill();
    return {to, padded, from.columns};
  }

  // to[row, key] of the rows of a step's queries with a block.
  __aicore__ inline void MultiplyGathered(const BlockStep& step, const PackedRows<T>& from,
                                          const L1Matrix<T>& block,
                                          const AscendC::GlobalTensor<float>& to) {
    const int32_t keys = step.tile.item.rows;
    for (int32_t at = 0; at < step.queries; at += BlockPartQueries(group_)) {
      const int32_t queries = PartOf(step, at);
      const L1Matrix<T> part = Gather(step, from, at, queries);
      rows_.BeginUse();
      product_.BeginResult();
      product_.template Add<Form::kStraight, Form::kStraight>(part, block, queries * group_, keys,
                                                              from.columns);
      product_.Store(to[int64_t{at} * group_ * kMostBlockKeys], kMostBlockKeys, queries * group_,
                     keys);
      rows_.EndUse();
    }
  }

  __aicore__ inline void SumBlock(const BlockStep& step) {
    Await<Handover::kProbabilities>(step.index);
    const auto sums = sums_[step.tile_index % kSlots * slot_sums_];
    SumGathered(step, score_grads_[Slot(step.index)], query_, sums);
    SumGathered(step, probabilities_[Slot(step.index)], output_grad_,
                sums[t_->selection.block_size * t_->dim]);
    if (step.last) HandOver<Handover::kPartialOutput>(step.tile_index);
  }

  // to[key, :] += factors[row, key] from[row, :]; the first step of a tile replaces it.
  __aicore__ inline void SumGathered(const BlockStep& step, const AscendC::GlobalTensor<T>& factors,
                                     const PackedRows<T>& from,
                                     const AscendC::GlobalTensor<float>& to) {
    const int32_t keys = step.tile.item.rows, most = SumRows(from.columns);
    for (int32_t key = 0; key < keys; key += most) {
      const auto here = static_cast<int32_t>(Min(most, keys - key));
      product_.BeginResult();
      for (int32_t at = 0; at < step.queries; at += BlockPartQueries(group_)) {
        const int32_t queries = PartOf(step, at), rows = queries * group_;
        const L1Matrix<T> others = Gather(step, from, at, queries);
        const L1Matrix<T> mine =
            CopyRows(factors_.BeginFill(), factors[int64_t{at} * group_ * kMostBlockKeys + key],
                     kMostBlockKeys, rows, here);
        factors_.EndFill();
        rows_.BeginUse();
        factors_.BeginUse();
        product_.template Add<Form::kTransposed, Form::kTransposed>(mine, others, here,
                                                                    from.columns, rows);
        rows_.EndUse();
        factors_.EndUse();
      }
      const auto part = to[int64_t{key} * from.columns];
      if (step.first) {
        product_.Store(part, from.columns, here, from.columns);
      } else {
        product_.AddTo(part, from.columns, here, from.columns);
      }
    }
  }

  const NsaSelectedAttentionGradTilingData* t_ = nullptr;
  NsaSelectedAttentionGradArguments g_{};
  GM_ADDR counts_ = nullptr;
  int32_t group_ = 1;
  int64_t slot_scores_ = 0, slot_sums_ = 0;
  PackedRows<T> query_{}, key_{}, value_{}, output_grad_{};
  AscendC::GlobalTensor<T> probabilities_, score_grads_;
  AscendC::GlobalTensor<float> scores_, product_grads_, sums_;
  AscendC::GlobalTensor<int32_t> queries_;
  AscendC::TBuf<AscendC::TPosition::A1> l1_;
  L1Ring<T, 2, 0> tiles_;    // a block's keys and values
  L1Ring<T, 2, 2> rows_;     // of queries
  L1Ring<T, 2, 4> factors_;  // P and dS
  L1Matrix<T> keys_{}, values_{};
  TileProduct<T> product_;
};

}  // namespace nsa::ascend
