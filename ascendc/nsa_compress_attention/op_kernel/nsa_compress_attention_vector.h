// A vector core of NsaCompressAttention: the softmax of whole rows, and from its probabilities the
// blocks that every query selects. Each of the two of a block has half of the queries of every
// tile.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/online_softmax.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/attention/score_slots.h"
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_cube.h"
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_ranking.h"

namespace nsa::ascend {

// Rows of up to `step_keys` keys are in the UB once, between the cube's scores and its
// probabilities. Longer ones are swept over twice: for the maximum and the sum, then for the
// probabilities.
template <typename T>
class NsaCompressAttentionVector {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaCompressAttentionTilingData* tiling,
                              const NsaCompressAttentionArguments& g) {
    t_ = tiling;
    core_ = AscendC::GetSubBlockIdx();
    group_ = static_cast<int32_t>(t_->work.group);
    step_keys_ = static_cast<int32_t>(t_->step_keys);
    most_queries_ = static_cast<int32_t>(t_->ranking.queries);
    const NsaCompressAttentionWorkspace bytes(t_->work, t_->score_pitch);
    GM_ADDR mine = g.workspace + AscendC::GetBlockIdx() / 2 * bytes.Total();
    slot_ = bytes.slot;
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine));
    mask_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(g.mask));
    max_out_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.softmax_max));
    sum_out_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.softmax_sum));
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.output));
    InitBuffers(
        pipe, NsaCompressAttentionBuffers(t_->ranking, group_, t_->pass_floats, t_->mask_row != 0));
    ranking_.Init(pipe, t_, g);
    items_.Init(&t_->work, &t_->mask, g.query_ends, g.key_ends, nullptr, g.offsets);
  }

  __aicore__ inline void Process() {
    Pass now{};
    more_ = NextTile(&now);
    if (more_) Load(now);
    while (more_) {
      next_ = now;
      in_tile_ = Advance(&next_);
      // Where one of them takes both slots, the next pass comes when this one's scores are done
      // with; that of another tile, too, so that the cube has time for them.
      loaded_ = in_tile_ && !IsLarge(now) && !IsLarge(next_);
      if (loaded_) Load(next_);
      Compute(now);
      now = next_;
    }
    slots_.Finish();
  }

 private:
  // A core's share of a tile.
  struct Tile {
    WorkItem item;
    int32_t begin, queries;  // this core's queries of it
    int64_t keys;            // that it sees
    int64_t index;           // of the tiles that see something
    int32_t pass_rows;       // that are computed at a time

    __aicore__ inline bool HasScores() const { return queries > 0 && keys > 0; }
  };
  // Rows with some of their keys. Where that is not all of them, the first sweep is for the maximum
  // and the sum, and the second one for the probabilities; sweeps follow each other for the queries
  // of a batch.
  struct Pass {
    int32_t tile;   // of two: a tile begins while the one before it is computed
    int32_t query;  // first of the batch, of this core's
    int32_t sweep;
    int64_t key;
    int32_t row;   // first of the batch's
    int32_t kept;  // where its statistics are, among those of the batch
  };

  __aicore__ inline const Tile& TileOf(const Pass& pass) const { return tiles_[pass.tile]; }
  __aicore__ inline int32_t BatchQueries(const Pass& pass) const {
    return static_cast<int32_t>(Min(most_queries_, TileOf(pass).queries - pass.query));
  }
  __aicore__ inline int32_t BatchRows(const Pass& pass) const {
    return BatchQueries(pass) * group_;
  }
  // A pass has some queries or some heads of one.
  __aicore__ inline int32_t Rows(const Pass& pass) const {
    const int32_t rows = TileOf(pass).pass_rows;
    const int32_t left = rows < group_ ? group_ - pass.row % group_ : BatchRows(pass) - pass.row;
    return static_cast<int32_t>(Min(rows, left));
  }
  __aicore__ inline PassRows Shape(const Pass& pass) const {
    return PassRows(Rows(pass),
                    static_cast<int32_t>(Min(step_keys_, TileOf(pass).keys - pass.key)));
  }
  __aicore__ inline bool IsLarge(const Pass& pass) const {
    return TileOf(pass).HasScores() && slots_.IsLarge(Shape(pass).floats());
  }
  // All keys of a tile are in the UB at once.
  __aicore__ inline bool InOneStep(const Pass& pass) const {
    return TileOf(pass).keys <= step_keys_;
  }

  // The first pass of the next tile, when its scores are there.
  __aicore__ inline bool NextTile(Pass* pass) {
    const int32_t other = pass->tile ^ 1;
    Tile& tile = tiles_[other];
    if (!items_.Next(&tile.item)) return false;
    const WorkItem& item = tile.item;
    const auto half = static_cast<int32_t>(CeilDiv(item.rows, 2));
    tile.begin = core_ == 0 ? 0 : half;
    tile.queries = core_ == 0 ? half : item.rows - half;
    tile.keys = SpanOf(item.visible, item.row, item.rows).end;
    if (tile.keys > 0) {
      const auto width = RoundUp(static_cast<int32_t>(Min(step_keys_, tile.keys)), kRepeatFloats);
      tile.pass_rows = RowsOfPass(t_->pass_floats, width, group_, most_queries_);
      tile.index = index_++;
      Await<Handover::kScores>(tile.index);
    }
    *pass = Pass{other, 0, 0, 0, 0, 0};
    return true;
  }
  // False if the tile has no further pass.
  __aicore__ inline bool Advance(Pass* pass) const {
    const Tile& tile = TileOf(*pass);
    if (!tile.HasScores()) return false;
    const int32_t rows = Rows(*pass);
    pass->row += rows;
    pass->kept += RoundUp(rows, kRowMultiple);
    if (pass->row < BatchRows(*pass)) return true;
    pass->row = pass->kept = 0;
    if (!InOneStep(*pass)) {
      pass->key += step_keys_;
      if (pass->key < tile.keys) return true;
      pass->key = 0;
      pass->sweep ^= 1;
      if (pass->sweep != 0) return true;
    }
    pass->query += most_queries_;
    return pass->query < tile.queries;
  }

  __aicore__ inline void InitBuffers(AscendC::TPipe* pipe,
                                     const NsaCompressAttentionBuffers& bytes) {
    pipe->InitBuffer(scores_buffer_, bytes.scores);
    if (bytes.masks > 0) pipe->InitBuffer(masks_buffer_, bytes.masks);
    pipe->InitBuffer(probabilities_out_, 1, bytes.probabilities);
    pipe->InitBuffer(statistics_out_, 1, bytes.statistics_out);
    pipe->InitBuffer(statistics_buffer_, bytes.statistics);
    pipe->InitBuffer(row_blocks_buffer_, bytes.row_blocks);
    pipe->InitBuffer(folded_buffer_, bytes.folded);
    pipe->InitBuffer(spread_buffer_, bytes.spread);
    pipe->InitBuffer(hidden_buffer_, bytes.hidden);
    const auto rows = static_cast<uint32_t>(NsaCompressAttentionBuffers::Rows(t_->ranking, group_));
    max_ = statistics_buffer_.template Get<float>();
    sum_ = max_[rows];
    factors_ = sum_[rows];
    max_blocks_ = row_blocks_buffer_.template Get<float>();
    inverse_blocks_ = max_blocks_[rows * kBlockFloats];
    ones_ = inverse_blocks_[rows * kBlockFloats];
    scratch_ = {folded_buffer_.template Get<float>(), spread_buffer_.template Get<float>(),
                kPassRows};
    AscendC::Duplicate(ones_, 1.0f, kPassRows * kBlockFloats);
    // Instructions over eight rows also read rows that a pass does not have.
    AscendC::Duplicate(scratch_.folded, 0.0f, kPassRows * (kRepeatFloats + kBlockFloats));
    AscendC::PipeBarrier<PIPE_V>();
    slots_.Start(scores_buffer_.template Get<float>(), SlotFloats(t_->pass_floats));
  }

  // Queries of a tile, from the first one of this core's on, in the segment.
  __aicore__ inline int64_t SegmentQuery(const Pass& pass) const {
    const Tile& tile = TileOf(pass);
    return tile.item.row + tile.begin + pass.query;
  }
  // Rows of scores of a tile.
  __aicore__ inline int64_t ScoreOffset(const Pass& pass) const {
    const Tile& tile = TileOf(pass);
    return tile.index % kSlots * slot_ +
           ((tile.begin + pass.query) * int64_t{group_} + pass.row) * t_->score_pitch;
  }

  // When the scores of the pass before it are done with.
  __aicore__ inline void LoadNext() {
    if (loaded_) return;
    if (!in_tile_) more_ = NextTile(&next_);
    if (more_) Load(next_);
  }
  __aicore__ inline void Load(const Pass& pass) {
    if (!TileOf(pass).HasScores()) return;
    const PassRows g = Shape(pass);
    const bool large = IsLarge(pass);
    const int32_t slot = slots_.BeginFill(large);
    CopyRowsIn(slots_.Slot(slot), scores_[ScoreOffset(pass) + pass.key], t_->score_pitch, g.rows,
               g.keys, g.width);
    if (t_->mask_row != 0) LoadMask(Mask(slot), pass, g);
    slots_.EndFill(large);
  }
  // A row of the mask for each query of the pass.
  __aicore__ inline AscendC::LocalTensor<uint8_t> Mask(int32_t slot) {
    return masks_buffer_
        .template Get<uint8_t>()[static_cast<uint32_t>(slot) *
                                 NsaCompressAttentionBuffers::MaskBytes(t_->ranking)];
  }
  __aicore__ inline void LoadMask(const AscendC::LocalTensor<uint8_t>& bytes, const Pass& pass,
                                  const PassRows& g) {
    const int64_t first = SegmentQuery(pass) + pass.row / group_;
    const int32_t queries = CeilDiv(g.rows, group_);
    if (g.keys < kStepKeys) {
      AscendC::Duplicate(bytes.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                         queries * kStepKeys / 2);
      Order<AscendC::HardEvent::V_MTE2>();
    }
    CopyRowsIn(bytes, mask_[first * t_->mask_row + pass.key], t_->mask_row, queries, g.keys,
               kStepKeys);
  }

  // Scores of the products. What rows do not see and what lies behind the last key is -infinity.
  __aicore__ inline AscendC::LocalTensor<float> TakeScores(const Pass& pass, const PassRows& g) {
    slot_in_use_ = slots_.BeginUse(IsLarge(pass));
    const auto x = slots_.Slot(slot_in_use_);
    // Nothing is scaled that was never written, and -infinity stays what it is.
    const bool positive = t_->scale > 0.0f;
    HideKeys(x, pass, g, positive ? -Infinity() : 0.0f);
    AscendC::Muls(x, x, t_->scale, g.floats());
    AscendC::PipeBarrier<PIPE_V>();
    if (!positive) HideKeys(x, pass, g, -Infinity());
    if (t_->mask_row != 0) HideByMask(x, g, -Infinity());
    return x;
  }

  // Sets the scores that rows do not see, and those behind the last key, to `hidden`.
  __aicore__ inline void HideKeys(const AscendC::LocalTensor<float>& x, const Pass& pass,
                                  const PassRows& g, float hidden) {
    const VisibleKeys& visible = TileOf(pass).item.visible;
    const int64_t first = SegmentQuery(pass) + pass.row / group_;
    const int32_t queries = CeilDiv(g.rows, group_);
    // Queries that see the same keys, side by side.
    for (int32_t query = 0; query < queries;) {
      const int64_t end = visible.High(first + query);
      int32_t next = query + 1;
      if (visible.High(first + queries - 1) == end) next = queries;
      while (next < queries && visible.High(first + next) == end) ++next;
      const auto rows = static_cast<int32_t>(Min(next * group_, g.rows) - query * group_);
      const auto from = static_cast<int32_t>(Min(Max(end - pass.key, 0), g.keys));
      FillColumns(x[static_cast<uint32_t>(query * group_ * g.width)], hidden, from, g.width, rows,
                  g.width);
      query = next;
    }
    AscendC::PipeBarrier<PIPE_V>();
  }
  __aicore__ inline void HideByMask(const AscendC::LocalTensor<float>& x, const PassRows& g,
                                    float hidden) {
    const auto bits = hidden_buffer_.template Get<uint8_t>();
    const auto values = bits[NsaCompressAttentionBuffers::MaskBytes(t_->ranking) / 8];
    BitsOfZeros(bits, values.template ReinterpretCast<half>(), Mask(slot_in_use_),
                static_cast<uint32_t>(CeilDiv(g.rows, group_) * kStepKeys));
    for (int32_t i = 0; i < g.rows; ++i) {
      const auto x_row = x[static_cast<uint32_t>(i * g.width)];
      const auto query = static_cast<uint32_t>(i / group_);
      AscendC::Select(x_row, bits[query * kBitRowBytes], x_row, hidden,
                      AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, static_cast<uint32_t>(g.width));
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  __aicore__ inline void Compute(const Pass& pass) {
    const Tile& tile = TileOf(pass);
    if (tile.keys == 0) {
      for (Pass at = pass; at.query < tile.queries; at.query += most_queries_) EmptyQueries(at);
      LoadNext();
    } else if (tile.queries == 0) {
      HandOver<Handover::kProbabilities>(tile.index);
      LoadNext();
    } else if (!InOneStep(pass) && pass.sweep == 0) {
      Statistics(pass);
      LoadNext();
    } else {
      Probabilities(pass);
    }
  }

  // The first sweep.
  __aicore__ inline void Statistics(const Pass& pass) {
    const PassRows g = Shape(pass);
    const auto at = static_cast<uint32_t>(pass.kept);
    if (pass.key == 0) StartRows(at, g.rows);
    auto x = TakeScores(pass, g);
    UpdateSoftmax(x, max_[at], sum_[at], factors_, scratch_, g);
    slots_.EndUse(IsLarge(pass));
    if (pass.key + step_keys_ >= TileOf(pass).keys) FinishRows(pass, g.rows);
  }
  __aicore__ inline void StartRows(uint32_t at, int32_t rows) {
    AscendC::Duplicate(max_[at], kLowest, RoundUp(rows, kRowMultiple));
    AscendC::Duplicate(sum_[at], 0.0f, RoundUp(rows, kRowMultiple));
    AscendC::PipeBarrier<PIPE_V>();
  }
  // Stores the statistics of a pass, and keeps what the second sweep needs of them.
  __aicore__ inline void FinishRows(const Pass& pass, int32_t rows) {
    const int32_t padded = RoundUp(rows, kRowMultiple);
    const auto at = static_cast<uint32_t>(pass.kept);
    auto blocks = statistics_out_.template AllocTensor<float>();
    SpreadRows(blocks, max_[at], padded);
    SpreadRows(Sums(blocks), sum_[at], padded);
    AscendC::Adds(max_blocks_[at * kBlockFloats], blocks, 0.0f, padded * kBlockFloats);
    StoreStatistics(pass, rows, blocks, inverse_blocks_[at * kBlockFloats]);
  }
  __aicore__ inline static AscendC::LocalTensor<float> Sums(
      const AscendC::LocalTensor<float>& blocks) {
    return blocks[static_cast<uint32_t>(kPassRows * kBlockFloats)];
  }

  // `inverse` = 1 / sum of `rows` rows.
  __aicore__ inline void StoreStatistics(const Pass& pass, int32_t rows,
                                         AscendC::LocalTensor<float> blocks,
                                         const AscendC::LocalTensor<float>& inverse) {
    const int32_t padded = RoundUp(rows, kRowMultiple);
    MarkEmptyRows(Sums(blocks), scratch_.folded.template ReinterpretCast<uint8_t>(), padded);
    AscendC::Div(inverse, ones_, Sums(blocks), padded * kBlockFloats);
    AscendC::PipeBarrier<PIPE_V>();
    statistics_out_.EnQue(blocks);
    blocks = statistics_out_.template DeQue<float>();
    // The heads of a query lie side by side.
    const auto heads = static_cast<int32_t>(Min(group_, rows));
    const int64_t to = HeadOffset(pass, pass.row / group_, pass.row % group_) * kBlockFloats;
    const AscendC::DataCopyExtParams params(
        static_cast<uint16_t>(rows / heads), static_cast<uint32_t>(heads) * kBlockBytes, 0,
        static_cast<uint32_t>(t_->heads - heads) * kBlockBytes, 0);
    AscendC::DataCopyPad(max_out_[to], blocks, params);
    AscendC::DataCopyPad(sum_out_[to], Sums(blocks), params);
    statistics_out_.FreeTensor(blocks);
  }
  // Offset of a head of a query of the batch, in rows of an output.
  __aicore__ inline int64_t HeadOffset(const Pass& pass, int32_t query, int32_t head) const {
    return Token(pass, query) * t_->heads + TileOf(pass).item.head * group_ + head;
  }
  __aicore__ inline int64_t Token(const Pass& pass, int32_t query) const {
    return TileOf(pass).item.query_start + SegmentQuery(pass) + query;
  }

  // P = exp(S - max) / sum.
  __aicore__ inline void Probabilities(const Pass& pass) {
    const PassRows g = Shape(pass);
    const Tile& tile = TileOf(pass);
    const auto at = static_cast<uint32_t>(pass.kept * kBlockFloats);
    if (pass.key == 0 && pass.row == 0) ranking_.Start(Batch(pass));
    auto x = TakeScores(pass, g);
    if (InOneStep(pass)) {
      auto blocks = statistics_out_.template AllocTensor<float>();
      WholeSoftmax(x, blocks, Sums(blocks), scratch_, g);
      StoreStatistics(pass, g.rows, blocks, inverse_blocks_[at]);
    } else {
      WithRowValue<false>(x, max_blocks_[at], g.rows, g.width, g.width);
      AscendC::Exp(x, x, g.floats());
      AscendC::PipeBarrier<PIPE_V>();
    }
    WithRowValue<true>(x, inverse_blocks_[at], g.rows, g.width, g.width);
    // After all of that: a NaN among the scores of a row makes its maximum and its sum NaN.
    HideKeys(x, pass, g, 0.0f);
    if (t_->mask_row != 0) HideByMask(x, g, 0.0f);
    ranking_.Add(x, g, pass.row / group_, pass.key);
    auto p = probabilities_out_.template AllocTensor<T>();
    RoundRows(p, x, g.floats());
    slots_.EndUse(IsLarge(pass));
    Store(p, 2 * ScoreOffset(pass) + pass.key, g);
    // The cube can go on while blocks are ranked.
    if (!in_tile_) HandOver<Handover::kProbabilities>(tile.index);
    LoadNext();
    if (pass.row + g.rows < BatchRows(pass)) return;
    if (pass.key + step_keys_ >= tile.keys) {
      ranking_.Finish();
    } else {
      ranking_.EndStep(pass.key + step_keys_);
    }
  }
  __aicore__ inline RankedQueries Batch(const Pass& pass) const {
    const Tile& tile = TileOf(pass);
    return {BatchQueries(pass), SegmentQuery(pass), Token(pass, 0),
            tile.item.head,     tile.keys,          tile.item.visible};
  }

  __aicore__ inline void Store(AscendC::LocalTensor<T> p, int64_t to, const PassRows& g) {
    constexpr int32_t kPerBlock = kBlockBytes / sizeof(T);
    probabilities_out_.EnQue(p);
    p = probabilities_out_.template DeQue<T>();
    const int32_t blocks = CeilDiv(g.keys, kPerBlock);
    AscendC::DataCopyPad(
        probabilities_[to], p,
        AscendC::DataCopyExtParams(static_cast<uint16_t>(g.rows),
                                   static_cast<uint32_t>(blocks) * kBlockBytes,
                                   static_cast<uint32_t>(g.width / kPerBlock - blocks),
                                   static_cast<uint32_t>(2 * t_->score_pitch * sizeof(T)) -
                                       static_cast<uint32_t>(blocks) * kBlockBytes,
                                   0));
    probabilities_out_.FreeTensor(p);
  }

  // A batch of a tile in which nobody sees anything.
  __aicore__ inline void EmptyQueries(Pass pass) {
    const int32_t all = BatchRows(pass), most = RowsOfPass(kPassRows, 1, group_, most_queries_);
    for (pass.row = 0; pass.row < all;) {
      const int32_t left = most < group_ ? group_ - pass.row % group_ : all - pass.row;
      const auto rows = static_cast<int32_t>(Min(most, left));
      StartRows(0, rows);
      FinishRows(pass, rows);
      pass.row += rows;
    }
    auto zeros = probabilities_out_.template AllocTensor<T>();
    const int64_t most_zeros = t_->pass_floats, length = group_ * t_->value_dim;
    AscendC::Duplicate(zeros.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                       static_cast<int32_t>(Min(most_zeros, length)));
    probabilities_out_.EnQue(zeros);
    zeros = probabilities_out_.template DeQue<T>();
    for (int32_t i = 0; i < BatchQueries(pass); ++i) {
      const int64_t to = HeadOffset(pass, i, 0) * t_->value_dim;
      for (int64_t at = 0; at < length; at += most_zeros) {
        const auto bytes = static_cast<uint32_t>(Min(most_zeros, length - at) * sizeof(T));
        AscendC::DataCopyPad(out_[to + at], zeros, AscendC::DataCopyExtParams(1, bytes, 0, 0, 0));
      }
    }
    probabilities_out_.FreeTensor(zeros);
    ranking_.Start(Batch(pass));
    ranking_.Finish();
  }

  const NsaCompressAttentionTilingData* t_ = nullptr;
  int64_t core_ = 0;  // of the block's two
  int32_t group_ = 1, step_keys_ = 0, most_queries_ = 1;
  WorkItems items_;
  Tile tiles_[2] = {};  // the one that is computed and the one after it
  int64_t index_ = 0;   // of the tiles that see something
  int64_t slot_ = 0;    // floats
  int32_t slot_in_use_ = 0;
  Pass next_{};
  bool more_ = false, in_tile_ = false, loaded_ = false;  // is there one, of this tile, on its way
  ScoreSlots slots_;
  NsaCompressAttentionRanking ranking_;
  RowScratch scratch_{};
  AscendC::GlobalTensor<float> scores_, max_out_, sum_out_;
  AscendC::GlobalTensor<T> probabilities_, out_;
  AscendC::GlobalTensor<uint8_t> mask_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> probabilities_out_, statistics_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> scores_buffer_, masks_buffer_, statistics_buffer_,
      row_blocks_buffer_, folded_buffer_, spread_buffer_, hidden_buffer_;
  AscendC::LocalTensor<float> max_, sum_, factors_;  // of the rows of a batch; of a pass
  AscendC::LocalTensor<float> max_blocks_, inverse_blocks_, ones_;
};

}  // namespace nsa::ascend
