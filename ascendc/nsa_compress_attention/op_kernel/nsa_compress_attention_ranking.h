// Which blocks a query of NsaCompressAttention may select, which are forced, and the lists of the
// best.
#pragma once

#include "ascendc/attention/importance.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/attention/topk.h"
#include "ascendc/attention/visible_keys.h"
#include "ascendc/common/pipe_order.h"
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_cube.h"

namespace nsa::ascend {

// Some queries of a key head.
struct RankedQueries {
  int32_t count;
  int64_t query;  // the first, in its segment
  int64_t token;
  int64_t head;
  int64_t keys;  // that one of them sees
  VisibleKeys visible;
};

class NsaCompressAttentionRanking {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaCompressAttentionTilingData* tiling,
                              const NsaCompressAttentionArguments& g) {
    t_ = &tiling->ranking;
    heads_ = tiling->work.heads;
    group_ = static_cast<int32_t>(tiling->work.group);
    const NsaCompressAttentionBuffers bytes(*t_, group_, tiling->pass_floats, false);
    pipe->InitBuffer(buffer_, bytes.ranking);
    pipe->InitBuffer(forced_in_, 1, bytes.forced);
    pipe->InitBuffer(indices_out_, 1, bytes.indices);
    topk_mask_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(g.topk_mask));
    indices_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(g.indices));
    importance_.Init(t_, buffer_.Get<float>());
    topk_.Init(t_, buffer_.Get<float>());
  }

  __aicore__ inline void Start(const RankedQueries& queries) {
    now_ = queries;
    candidates_ = Candidates(now_.count - 1);
    // One window may be all there is, and shorter than others.
    const int64_t blocks = now_.keys <= t_->Keys()
                               ? (candidates_ + kMultiple - 1) / kMultiple * kMultiple
                               : t_->window;
    const auto window = static_cast<int32_t>(Max(kMultiple, Min(blocks, t_->window)));
    importance_.SetWindow(window);
    topk_.SetWindow(window);
    importance_.Start();
    topk_.Start();
  }

  // The probabilities of rows of the queries from `first` on, for the keys from `key` on.
  __aicore__ inline void Add(const AscendC::LocalTensor<float>& p, const PassRows& g, int32_t first,
                             int64_t key) {
    importance_.Add(p, g, group_, first, static_cast<int32_t>(key % t_->Keys()));
  }

  // The keys below `end` have been added, for all queries.
  __aicore__ inline void EndStep(int64_t end) {
    if (end % t_->Keys() == 0) RankWindow();
  }

  // All keys have been added.
  __aicore__ inline void Finish() {
    while (RankWindow() < candidates_) {
    }
    auto indices = indices_out_.AllocTensor<int32_t>();
    topk_.Take(indices);
    indices_out_.EnQue(indices);
    indices = indices_out_.DeQue<int32_t>();
    const int64_t count = t_->count, pitch = heads_ * count;
    CopyRowsOut(indices_[now_.token * pitch + now_.head * count], pitch, indices, now_.count,
                static_cast<int32_t>(count), ListPairs(count));
    indices_out_.FreeTensor(indices);
  }

 private:
  // Blocks that query i may select.
  __aicore__ inline int64_t Candidates(int32_t i) const {
    if (t_->causal != 0) return OwnBlock(i) + 1;
    if (now_.visible.keys == 0) return 0;
    const int64_t keys = now_.visible.keys + (t_->overlap != 0 ? t_->overlap_keys - 1 : 0);
    return (keys + t_->block_keys - 1) / t_->block_keys;
  }
  __aicore__ inline int64_t OwnBlock(int32_t i) const {
    return (now_.visible.position + now_.query + i) / t_->block_tokens;
  }

  // Returns the first block that is not ranked yet.
  __aicore__ inline int64_t RankWindow() {
    const BlockWindow blocks = importance_.Blocks(now_.keys);
    importance_.Scores(topk_.Scores(), blocks);
    if (blocks.end < candidates_) importance_.NextWindow(blocks);
    topk_.PrepareScores(blocks.first);
    // Queries of one block, side by side.
    for (int32_t i = 0; i < now_.count;) {
      int32_t next = i + 1;
      while (next < now_.count && OwnBlock(next) == OwnBlock(i)) ++next;
      const int64_t end = Min(Candidates(i), blocks.end) - blocks.first;
      if (t_->mask_row != 0) {
        for (int32_t query = i; query < next; ++query) ForceByMask(query, blocks.first, end);
      }
      if (t_->causal != 0) {
        const int64_t own = OwnBlock(i) - blocks.first;
        topk_.Force(i, next - i, -blocks.first, t_->init - blocks.first);
        topk_.Force(i, next - i, own - t_->local + 1, own + 1);
      }
      topk_.Exclude(i, next - i, end);
      i = next;
    }
    topk_.Sort();
    topk_.Merge(now_.count, Min(candidates_, blocks.end) - blocks.first);
    return blocks.end;
  }

  __aicore__ inline void ForceByMask(int32_t i, int64_t first, int64_t count) {
    if (count <= 0) return;
    const int32_t window = topk_.Window();
    auto mask = forced_in_.AllocTensor<uint8_t>();
    AscendC::Duplicate(mask.ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                       RoundUp(window, 2 * kRepeatFloats) / 2);
    Order<AscendC::HardEvent::V_MTE2>();
    CopyRowsIn(mask, topk_mask_[(now_.query + i) * t_->mask_row + first], 0, 1,
               static_cast<int32_t>(count), window);
    forced_in_.EnQue(mask);
    mask = forced_in_.DeQue<uint8_t>();
    topk_.Force(i, mask);
    forced_in_.FreeTensor(mask);
  }

  static constexpr int64_t kMultiple = kRepeatFloats;  // blocks of a window are a multiple of it

  const RankingTiling* t_ = nullptr;
  int64_t heads_ = 1;
  int32_t group_ = 1;
  RankedQueries now_{};
  int64_t candidates_ = 0;  // of the last query, which has most
  Importance importance_;
  TopK topk_;
  AscendC::GlobalTensor<uint8_t> topk_mask_;
  AscendC::GlobalTensor<int32_t> indices_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> buffer_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> forced_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> indices_out_;
};

}  // namespace nsa::ascend
