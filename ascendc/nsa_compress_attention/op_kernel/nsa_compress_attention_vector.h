// A vector core's part of NsaCompressAttention: the softmax of whole rows, in two sweeps over the
// scores, and from its probabilities the blocks that every query selects. Each of the two of a
// block has half of the queries of every tile.
#pragma once

#include "ascendc/attention/handover.h"
#include "ascendc/attention/importance.h"
#include "ascendc/attention/online_softmax.h"
#include "ascendc/attention/row_mask.h"
#include "ascendc/attention/row_store.h"
#include "ascendc/attention/topk.h"
#include "ascendc/attention/work_items.h"
#include "ascendc/nsa_compress_attention/op_kernel/nsa_compress_attention_cube.h"

namespace nsa::ascend {

template <typename T>
class NsaCompressAttentionVector {
 public:
  __aicore__ inline void Init(AscendC::TPipe* pipe, const NsaCompressAttentionTilingData* tiling,
                              const NsaCompressAttentionArguments& g) {
    t_ = tiling;
    core_ = AscendC::GetSubBlockIdx();
    group_ = static_cast<int32_t>(t_->work.group);
    group_rows_ = static_cast<int32_t>(t_->group_rows);
    step_keys_ = static_cast<int32_t>(t_->step_keys);
    most_queries_ = static_cast<int32_t>(t_->ranking.queries);
    most_rows_ = NsaCompressAttentionBuffers::Rows(t_->ranking, group_, group_rows_);
    const NsaCompressAttentionWorkspace bytes(t_->work, t_->score_pitch);
    GM_ADDR mine = g.workspace + AscendC::GetBlockIdx() / 2 * bytes.Total();
    slot_ = bytes.slot;
    scores_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mine));
    probabilities_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(mine));
    mask_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(g.mask));
    topk_mask_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(g.topk_mask));
    max_out_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.softmax_max));
    sum_out_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(g.softmax_sum));
    out_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(g.output));
    indices_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(g.indices));
    InitBuffers(pipe,
                NsaCompressAttentionBuffers(t_->ranking, group_, group_rows_, t_->mask_row != 0));
    items_.Init(&t_->work, &t_->mask, g.query_ends, g.key_ends, nullptr, g.offsets);
  }

  __aicore__ inline void Process() {
    int64_t index = 0;  // of the tiles that see something
    while (items_.Next(&item_)) {
      const auto half = static_cast<int32_t>(CeilDiv(item_.rows, 2));
      begin_ = core_ == 0 ? 0 : half;
      queries_ = core_ == 0 ? half : item_.rows - half;
      keys_ = SpanOf(item_.visible, item_.row, item_.rows).end;
      if (keys_ == 0) {
        for (int32_t at = 0; at < queries_; at += most_queries_) EmptyQueries(at);
        continue;
      }
      Await<Handover::kScores>(index);
      slot_begin_ = index % 2 * slot_;
      if (queries_ > 0) Tile();
      HandOver<Handover::kProbabilities>(index);
      ++index;
    }
  }

 private:
  // A group of rows with some of their keys: in the first sweep for the maximum and the sum, in the
  // second one for the probabilities. Sweeps follow each other for the queries of a batch.
  struct Piece {
    int32_t query;  // first of the batch, of this core's
    int32_t sweep;
    int64_t key;
    int32_t row;  // first of the batch's
  };
  __aicore__ inline int32_t BatchQueries(int32_t query) const {
    return static_cast<int32_t>(Min(most_queries_, queries_ - query));
  }
  __aicore__ inline bool Advance(Piece* piece) const {
    piece->row += group_rows_;
    if (piece->row < BatchQueries(piece->query) * group_) return true;
    piece->row = 0;
    piece->key += step_keys_;
    if (piece->key < keys_) return true;
    piece->key = 0;
    piece->sweep ^= 1;
    if (piece->sweep != 0) return true;
    piece->query += most_queries_;
    return piece->query < queries_;
  }

  __aicore__ inline void InitBuffers(AscendC::TPipe* pipe,
                                     const NsaCompressAttentionBuffers& bytes) {
    pipe->InitBuffer(ranking_buffer_, bytes.ranking);
    pipe->InitBuffer(inputs_, 2, bytes.inputs);
    pipe->InitBuffer(probabilities_out_, 2, bytes.probabilities);
    pipe->InitBuffer(forced_in_, 1, bytes.forced);
    pipe->InitBuffer(indices_out_, 1, bytes.indices);
    pipe->InitBuffer(statistics_out_, 1, bytes.statistics_out);
    pipe->InitBuffer(statistics_buffer_, bytes.statistics);
    pipe->InitBuffer(row_blocks_buffer_, bytes.row_blocks);
    pipe->InitBuffer(folded_buffer_, bytes.folded);
    pipe->InitBuffer(spread_buffer_, bytes.spread);
    pipe->InitBuffer(visible_buffer_, bytes.visible);
    pipe->InitBuffer(hidden_buffer_, bytes.hidden);
    max_ = statistics_buffer_.template Get<float>();
    sum_ = max_[static_cast<uint32_t>(most_rows_)];
    factors_ = sum_[static_cast<uint32_t>(most_rows_)];
    max_blocks_ = row_blocks_buffer_.template Get<float>();
    inverse_blocks_ = max_blocks_[static_cast<uint32_t>(most_rows_ * kBlockFloats)];
    scratch_ = {folded_buffer_.template Get<float>(), spread_buffer_.template Get<float>(),
                group_rows_};
    // Instructions over eight rows also read rows that a group does not have.
    AscendC::Duplicate(scratch_.folded, 0.0f, group_rows_ * (kRepeatFloats + kBlockFloats));
    AscendC::PipeBarrier<PIPE_V>();
    row_mask_.Init(visible_buffer_.template Get<float>(), group_rows_);
    importance_.Init(&t_->ranking, ranking_buffer_.template Get<float>());
    topk_.Init(&t_->ranking, ranking_buffer_.template Get<float>());
  }

  __aicore__ inline void Tile() {
    Piece now{};
    Load(now);
    for (bool more = true; more;) {
      Piece next = now;
      more = Advance(&next);
      if (more) Load(next);
      if (now.sweep == 0) {
        Statistics(now);
      } else {
        Probabilities(now);
      }
      now = next;
    }
  }

  __aicore__ inline RowGroup Group(const Piece& piece) const {
    const int32_t left = BatchQueries(piece.query) * group_ - piece.row;
    return RowGroup(static_cast<int32_t>(Min(group_rows_, left)),
                    static_cast<int32_t>(Min(step_keys_, keys_ - piece.key)));
  }
  // The first row, counted in heads of queries from the start of the tile on.
  __aicore__ inline int64_t TileRow(const Piece& piece) const {
    return (begin_ + piece.query) * int64_t{group_} + piece.row;
  }
  // Likewise, of the segment.
  __aicore__ inline int64_t SegmentRow(const Piece& piece) const {
    return item_.row * group_ + TileRow(piece);
  }
  __aicore__ inline int64_t ScoreOffset(const Piece& piece) const {
    return slot_begin_ + TileRow(piece) * t_->score_pitch;
  }

  __aicore__ inline void Load(const Piece& piece) {
    const RowGroup g = Group(piece);
    auto inputs = inputs_.template AllocTensor<float>();
    CopyRowsIn(inputs, scores_[ScoreOffset(piece) + piece.key], t_->score_pitch, g.rows, g.keys,
               g.width);
    if (t_->mask_row != 0) LoadMask(inputs[group_rows_ * kStepKeys], piece, g);
    inputs_.EnQue(inputs);
  }
  // A row of the mask for each query of the group.
  __aicore__ inline void LoadMask(const AscendC::LocalTensor<float>& to, const Piece& piece,
                                  const RowGroup& g) {
    const auto bytes = to.template ReinterpretCast<uint8_t>();
    const int64_t row = SegmentRow(piece), first = row / group_;
    const auto queries = static_cast<int32_t>((row + g.rows - 1) / group_ - first + 1);
    if (g.keys < kStepKeys) {
      AscendC::Duplicate(bytes.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                         queries * kStepKeys / 2);
      Order<AscendC::HardEvent::V_MTE2>();
    }
    CopyRowsIn(bytes, mask_[first * t_->mask_row + piece.key], t_->mask_row, queries, g.keys,
               kStepKeys);
  }

  // Scores of the products; what lies behind the last key becomes -infinity.
  __aicore__ inline AscendC::LocalTensor<float> TakeScores(const RowGroup& g) {
    auto x = inputs_.template DeQue<float>();
    ScaleRows(x, t_->scale, g);
    FillTail(x, -Infinity(), g);
    return x;
  }

  // What rows do not see becomes `hidden`.
  __aicore__ inline void Hide(const AscendC::LocalTensor<float>& x, const Piece& piece,
                              const RowGroup& g, float hidden) {
    const int64_t row = SegmentRow(piece);
    if (t_->mask_row != 0) HideByMask(x, row, g, hidden);
    row_mask_.Apply(x, item_.visible, row, piece.key, g, group_, hidden);
  }
  __aicore__ inline void HideByMask(const AscendC::LocalTensor<float>& x, int64_t row,
                                    const RowGroup& g, float hidden) {
    const auto mask = x[group_rows_ * kStepKeys].template ReinterpretCast<uint8_t>();
    const int64_t first = row / group_;
    const auto queries = static_cast<int32_t>((row + g.rows - 1) / group_ - first + 1);
    const auto bits = hidden_buffer_.template Get<uint8_t>();
    const auto values = bits[NsaCompressAttentionBuffers::MaskBytes(group_, group_rows_) / 8];
    BitsOfZeros(bits, values.template ReinterpretCast<half>(), mask,
                static_cast<uint32_t>(queries * kStepKeys));
    for (int32_t i = 0; i < g.rows; ++i) {
      const auto x_row = x[static_cast<uint32_t>(i * g.width)];
      const auto query = static_cast<uint32_t>((row + i) / group_ - first);
      AscendC::Select(x_row, bits[query * kBitRowBytes], x_row, hidden,
                      AscendC::SELMODE::VSEL_TENSOR_SCALAR_MODE, static_cast<uint32_t>(g.width));
    }
    AscendC::PipeBarrier<PIPE_V>();
  }

  // The first sweep.
  __aicore__ inline void Statistics(const Piece& piece) {
    const RowGroup g = Group(piece);
    const auto at = static_cast<uint32_t>(piece.row);
    if (piece.key == 0) StartRows(at);
    auto x = TakeScores(g);
    Hide(x, piece, g, -Infinity());
    UpdateSoftmax(x, max_[at], sum_[at], factors_, scratch_, g);
    inputs_.FreeTensor(x);
    if (piece.key + step_keys_ >= keys_) FinishRows(piece.query, piece.row, g.rows);
  }
  __aicore__ inline void StartRows(uint32_t at) {
    AscendC::Duplicate(max_[at], kLowest, group_rows_);
    AscendC::Duplicate(sum_[at], 0.0f, group_rows_);
    AscendC::PipeBarrier<PIPE_V>();
  }

  // Stores the statistics of `rows` rows from `row` of a batch on, and keeps what the second sweep
  // needs of them.
  __aicore__ inline void FinishRows(int32_t query, int32_t row, int32_t rows) {
    const int32_t padded = RoundUp(rows, kRowUnit), floats = padded * kBlockFloats;
    const auto at = static_cast<uint32_t>(row);
    const auto kept = max_blocks_[at * kBlockFloats], inverse = inverse_blocks_[at * kBlockFloats];
    auto blocks = statistics_out_.template AllocTensor<float>();
    auto sums = blocks[static_cast<uint32_t>(group_rows_ * kBlockFloats)];
    SpreadRows(blocks, max_[at], padded);
    SpreadRows(sums, sum_[at], padded);
    MarkEmptyRows(sums, scratch_.folded.template ReinterpretCast<uint8_t>(), padded);
    AscendC::Adds(kept, blocks, 0.0f, floats);
    AscendC::Duplicate(inverse, 1.0f, floats);
    AscendC::PipeBarrier<PIPE_V>();
    AscendC::Div(inverse, inverse, sums, floats);
    AscendC::PipeBarrier<PIPE_V>();
    statistics_out_.EnQue(blocks);
    blocks = statistics_out_.template DeQue<float>();
    sums = blocks[static_cast<uint32_t>(group_rows_ * kBlockFloats)];
    for (int32_t done = 0; done < rows;) {
      // The heads of a query lie side by side.
      const int32_t head = (row + done) % group_;
      const auto count = static_cast<int32_t>(Min(group_ - head, rows - done));
      const int64_t to = HeadOffset(query + (row + done) / group_, head) * kBlockFloats;
      const auto from = static_cast<uint32_t>(done * kBlockFloats);
      CopyStatisticsOut(max_out_[to], kBlockFloats, blocks[from], count);
      CopyStatisticsOut(sum_out_[to], kBlockFloats, sums[from], count);
      done += count;
    }
    statistics_out_.FreeTensor(blocks);
  }
  // Of a head of a query of this core's, in rows of an output.
  __aicore__ inline int64_t HeadOffset(int32_t query, int32_t head) const {
    return Token(query) * t_->heads + item_.head * group_ + head;
  }
  __aicore__ inline int64_t Token(int32_t query) const {
    return item_.query_start + item_.row + begin_ + query;
  }

  // The second sweep: P = exp(S - max) / sum.
  __aicore__ inline void Probabilities(const Piece& piece) {
    const RowGroup g = Group(piece);
    const auto at = static_cast<uint32_t>(piece.row * kBlockFloats);
    const bool last_row = piece.row + g.rows == BatchQueries(piece.query) * group_;
    if (piece.key == 0 && piece.row == 0) StartRanking();
    auto x = TakeScores(g);
    WithRowValue<false>(x, max_blocks_[at], g.rows, g.width, g.width);
    AscendC::Exp(x, x, g.floats());
    AscendC::PipeBarrier<PIPE_V>();
    WithRowValue<true>(x, inverse_blocks_[at], g.rows, g.width, g.width);
    // After all of that: a NaN among the scores of a row makes its maximum and its sum NaN.
    FillTail(x, 0.0f, g);
    Hide(x, piece, g, 0.0f);
    importance_.Add(x, g, group_, static_cast<int32_t>(piece.key % t_->ranking.Keys()));
    Store(x, 2 * ScoreOffset(piece) + piece.key, g);
    inputs_.FreeTensor(x);
    const bool last = piece.key + step_keys_ >= keys_;
    if (last_row && last) {
      FinishRanking(piece.query);
    } else if (last_row && (piece.key + step_keys_) % t_->ranking.Keys() == 0) {
      RankWindow(piece.query);
    }
  }

  __aicore__ inline void Store(const AscendC::LocalTensor<float>& x, int64_t to,
                               const RowGroup& g) {
    constexpr int32_t kPerBlock = kBlockBytes / sizeof(T);
    auto p = probabilities_out_.template AllocTensor<T>();
    RoundRows(p, x, g.floats());
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

  // Queries of a tile in which nobody sees anything.
  __aicore__ inline void EmptyQueries(int32_t query) {
    const int32_t rows = BatchQueries(query) * group_;
    for (int32_t row = 0; row < rows; row += group_rows_) {
      StartRows(static_cast<uint32_t>(row));
      FinishRows(query, row, static_cast<int32_t>(Min(group_rows_, rows - row)));
    }
    auto zeros = probabilities_out_.template AllocTensor<T>();
    const int64_t most = group_rows_ * kStepKeys;
    AscendC::Duplicate(zeros.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                       static_cast<int32_t>(most));
    probabilities_out_.EnQue(zeros);
    zeros = probabilities_out_.template DeQue<T>();
    const int64_t length = group_ * t_->value_dim;
    for (int32_t i = 0; i < BatchQueries(query); ++i) {
      const int64_t to = HeadOffset(query + i, 0) * t_->value_dim;
      for (int64_t at = 0; at < length; at += most) {
        const auto bytes = static_cast<uint32_t>(Min(most, length - at) * sizeof(T));
        AscendC::DataCopyPad(out_[to + at], zeros, AscendC::DataCopyExtParams(1, bytes, 0, 0, 0));
      }
    }
    probabilities_out_.FreeTensor(zeros);
    StartRanking();
    FinishRanking(query);
  }

  __aicore__ inline void StartRanking() {
    importance_.Start();
    topk_.Start();
  }

  // Blocks that a query may select.
  __aicore__ inline int64_t Candidates(int32_t query) const {
    const RankingTiling& t = t_->ranking;
    if (t.causal != 0) return OwnBlock(query) + 1;
    const int64_t keys = item_.visible.keys + (t.overlap != 0 ? t.overlap_keys - 1 : 0);
    return (keys + t.block_keys - 1) / t.block_keys;
  }
  __aicore__ inline int64_t OwnBlock(int32_t query) const {
    return (item_.visible.position + item_.row + begin_ + query) / t_->ranking.block_tokens;
  }

  __aicore__ inline void FinishRanking(int32_t query) {
    const int32_t queries = BatchQueries(query);
    const int64_t candidates = Candidates(query + queries - 1);
    while (RankWindow(query) < candidates) {
    }
    auto indices = indices_out_.template AllocTensor<int32_t>();
    topk_.Take(indices);
    indices_out_.EnQue(indices);
    indices = indices_out_.template DeQue<int32_t>();
    const int64_t count = t_->ranking.count, pitch = t_->work.heads * count;
    CopyRowsOut(indices_[Token(query) * pitch + item_.head * count], pitch, indices, queries,
                static_cast<int32_t>(count), ListPairs(count));
    indices_out_.FreeTensor(indices);
  }

  // Returns the first block that is not ranked yet.
  __aicore__ inline int64_t RankWindow(int32_t query) {
    const RankingTiling& t = t_->ranking;
    const BlockWindow blocks = importance_.Blocks(keys_);
    importance_.Scores(topk_.Scores(), blocks);
    importance_.NextWindow(blocks);
    topk_.PrepareScores(blocks.first);
    const int32_t queries = BatchQueries(query);
    for (int32_t i = 0; i < queries; ++i) {
      const int64_t end = Min(Candidates(query + i), blocks.end) - blocks.first;
      if (t.mask_row != 0) ForceByMask(query, i, blocks.first, end);
      if (t.causal != 0) {
        const int64_t own = OwnBlock(query + i) - blocks.first;
        topk_.Force(i, -blocks.first, t.init - blocks.first);
        topk_.Force(i, own - t.local + 1, own + 1);
      }
      topk_.Exclude(i, end);
    }
    topk_.Sort();
    for (int32_t i = 0; i < queries; ++i)
      topk_.Merge(i, Min(Candidates(query + i), blocks.end) - blocks.first);
    return blocks.end;
  }

  __aicore__ inline void ForceByMask(int32_t query, int32_t i, int64_t first, int64_t count) {
    if (count <= 0) return;
    const auto window = static_cast<int32_t>(t_->ranking.window);
    auto mask = forced_in_.template AllocTensor<uint8_t>();
    AscendC::Duplicate(mask.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                       RoundUp(window, 2 * kRepeatFloats) / 2);
    Order<AscendC::HardEvent::V_MTE2>();
    const int64_t row = item_.row + begin_ + query + i;
    CopyRowsIn(mask, topk_mask_[row * t_->ranking.mask_row + first], 0, 1,
               static_cast<int32_t>(count), window);
    forced_in_.EnQue(mask);
    mask = forced_in_.template DeQue<uint8_t>();
    topk_.Force(i, mask);
    forced_in_.FreeTensor(mask);
  }

  const NsaCompressAttentionTilingData* t_ = nullptr;
  int64_t core_ = 0;  // of the block's two
  int32_t group_ = 1, group_rows_ = 0, step_keys_ = 0, most_queries_ = 1, most_rows_ = 0;
  WorkItems items_;
  WorkItem item_{};                  // the tile
  int32_t begin_ = 0, queries_ = 0;  // this core's queries of it
  int64_t keys_ = 0;                 // that it sees
  int64_t slot_ = 0, slot_begin_ = 0;
  RowMask row_mask_;
  Importance importance_;
  TopK topk_;
  RowScratch scratch_{};
  AscendC::GlobalTensor<float> scores_, max_out_, sum_out_;
  AscendC::GlobalTensor<T> probabilities_, out_;
  AscendC::GlobalTensor<uint8_t> mask_, topk_mask_;
  AscendC::GlobalTensor<int32_t> indices_;
  AscendC::TQue<AscendC::TPosition::VECIN, 2> inputs_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 2> probabilities_out_;
  AscendC::TQue<AscendC::TPosition::VECIN, 1> forced_in_;
  AscendC::TQue<AscendC::TPosition::VECOUT, 1> indices_out_, statistics_out_;
  AscendC::TBuf<AscendC::TPosition::VECCALC> ranking_buffer_, statistics_buffer_,
      row_blocks_buffer_, folded_buffer_, spread_buffer_, visible_buffer_, hidden_buffer_;
  AscendC::LocalTensor<float> max_, sum_, factors_;  // of the rows of a batch; of a group
  AscendC::LocalTensor<float> max_blocks_, inverse_blocks_;
};

}  // namespace nsa::ascend
