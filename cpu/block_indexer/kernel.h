// BlockIndexer: the scores of a tile of queries, all heads that share a key head, become scores of
// blocks while they are in cache; from these every query chooses its blocks.
#pragma once

#include <type_traits>

#include "cpu/block_indexer/scores.h"
#include "cpu/engine/plan/topk.h"
#include "cpu/engine/step/forward.h"

namespace nsa::cpu {
namespace {

struct IndexerBuffers {
  float* q;       // [rows, words(D)]
  float* weight;  // [rows]
  float* s;       // [rows, lds]
  int64_t lds;
  float* one;     // [lds] of one query and group
  float* blocks;  // [queries, groups of the key head, score_room(blocks)]
  Candidates best;
  float* means;  // [kKvBlockKeys, D] of kMean
  float* sum;    // [D] of kMean
  float* tmp;

  static IndexerBuffers carve(Arena& arena, const AttentionPlan& plan, const IndexerPlan& index) {
    IndexerBuffers b{};
    const int64_t rows = index.max_rows;
    const bool whole = index.score == BlockScore::kSoftmaxMax;
    b.lds = whole ? padded_row(round_up(index.max_lanes, kKvBlockKeys)) : kScoreRow;
    b.q = arena.take<float>(rows * round_up(plan.D, kLanePad));
    b.weight = arena.take<float>(rows);
    b.s = arena.take<float>(rows * b.lds);
    b.one = arena.take<float>(b.lds);
    b.blocks = arena.take<float>(rows / index.heads * score_room(index.max_blocks));
    b.best = Candidates::carve(arena, index.count, index.max_blocks);
    if (index.score == BlockScore::kMean) {
      b.means = arena.take<float>(kKvBlockKeys * plan.D);
      b.sum = arena.take<float>(plan.D);
    }
    b.tmp = arena.take<float>(round_up(plan.D, kLanePad));
    return b;
  }
};

// Queries [i0, i0 + queries) of a segment with all heads of a key head.
template <class Variant>
class IndexerTile {
 public:
  IndexerTile(const AttentionPlan& plan, const IndexerPlan& index, const Segment& seg,
              const RowTile& tile, int64_t key_head, const float* keys, IndexerBuffers& b)
      : plan_(plan),
        index_(index),
        seg_(seg),
        i0_(tile.i0),
        queries_(tile.queries),
        key_head_(key_head),
        groups_(plan.G / index.heads),
        depth_(words<Variant>(plan.D)),
        keys_(keys),
        b_(b) {}

  void run() {
    begin_rows();
    switch (index_.score) {
      case BlockScore::kMax:
        token_scores<false>();
        break;
      case BlockScore::kReluWeighted:
        token_scores<true>();
        break;
      case BlockScore::kMean:
        mean_scores();
        break;
      case BlockScore::kSoftmaxMax:
        window_scores();
        break;
    }
    choose();
  }

 private:
  int64_t seen(int64_t n) const { return seg_.range.hi(i0_ + n); }
  int64_t candidates(int64_t n) const { return index_.candidates(seg_, i0_ + n); }
  // The scores of the blocks of query number n and a group of the key head.
  float* blocks(int64_t n, int64_t group) const {
    return b_.blocks + (n * groups_ + group) * score_room(index_.max_blocks);
  }
  // The row of its first head.
  int64_t row(int64_t n, int64_t group) const { return n * plan_.G + group * index_.heads; }

  // each(query number, group) for all of both, from a query on.
  template <class Each>
  void each_group(int64_t first, const Each& each) const {
    for (int64_t n = first; n < queries_; ++n)
      for (int64_t group = 0; group < groups_; ++group) each(n, group);
  }

  void begin_rows() {
    float* weight = b_.weight;
    for (int64_t n = 0; n < queries_; ++n) {
      for (int64_t g = 0; g < plan_.G; ++g, ++weight) {
        const int64_t i = i0_ + n, head = key_head_ * plan_.G + g;
        pack_row<Variant>(plan_.dtype, plan_.query, seg_.q + i * plan_.q.row + head * plan_.q.head,
                          plan_.D, b_.q + (n * plan_.G + g) * depth_);
        const int64_t token = seg_.first_query + i;
        *weight = index_.weights ? index_.weights[token * plan_.N1 + head] : 1.0f;
      }
    }
  }

  // Products of the rows of queries from number n on with packed keys [k0, k1).
  void products(int64_t n, int64_t k0, int64_t k1) {
    const Operand rows = {b_.q + n * plan_.G * depth_, depth_, 1};
    key_products<Variant>(rows, (queries_ - n) * plan_.G, {keys_, depth_, kKvBlockKeys}, k0, k1,
                          {b_.s, b_.lds});
  }

  template <bool kRelu>
  void token_scores() {
    each_group(
        0, [&](int64_t n, int64_t group) { fill(blocks(n, group), candidates(n), -kInfinity); });
    const int64_t end = seen(queries_ - 1);
    int64_t first = 0;  // query that sees a key of the step
    for (int64_t k0 = 0; k0 < end; k0 += kTileKeys) {
      while (seen(first) <= k0) ++first;
      products(first, k0, min64(k0 + kTileKeys, round_up(end, key_step<Variant>())));
      each_group(first, [&](int64_t n, int64_t group) {
        const int64_t here = min64(kTileKeys, seen(n) - k0), r = row(n, group);
        combine_heads<kRelu>(b_.s + (r - first * plan_.G) * b_.lds, b_.lds, plan_.scale,
                             b_.weight + r, index_.heads, here, b_.one);
        raise_blocks(b_.one, k0, here, index_.block_size, blocks(n, group));
      });
    }
  }

  void mean_scores() {
    const int64_t means = seg_.kv_len;
    for (int64_t k0 = 0; k0 < means; k0 += kTileKeys) {
      const int64_t past = min64(k0 + kTileKeys, means);
      products(0, k0, round_up(past, key_step<Variant>()));
      each_group(0, [&](int64_t n, int64_t group) {
        const int64_t r = row(n, group), here = min64(past, candidates(n)) - k0;
        combine_heads<false>(b_.s + r * b_.lds, b_.lds, plan_.scale, b_.weight + r, index_.heads,
                             here, blocks(n, group) + k0);
      });
    }
    each_group(0, [&](int64_t n, int64_t group) {
      const int64_t count = candidates(n);
      if (count > means) fill(blocks(n, group) + means, count - means, -kInfinity);
    });
    own_means();
  }

  // Scores the block that a query sees in part by the mean of the keys that it sees.
  void own_means() {
    if (index_.local_blocks > 0) return;  // it is chosen whatever its score
    const int64_t block = index_.block_size;
    int64_t own = -1, summed = 0;  // keys before this one are in the sum
    for (int64_t n = 0; n < queries_; ++n) {
      const int64_t j = candidates(n) - 1, begin = j * block, past = seen(n);
      if (past <= begin || past == min64(begin + block, seg_.range.kv_len)) continue;
      if (j != own) {
        own = j;
        summed = begin;
        fill(b_.sum, plan_.D, 0.0f);
      }
      for (; summed < past; ++summed) add_key(plan_, seg_, key_head_, summed, b_.tmp, b_.sum);
      const float count = static_cast<float>(past - begin);
      for (int64_t d = 0; d < plan_.D; ++d) b_.tmp[d] = b_.sum[d] / count;
      for (int64_t group = 0; group < groups_; ++group) {
        float score = 0.0f;
        for (int64_t r = row(n, group); r < row(n, group) + index_.heads; ++r)
          score += b_.weight[r] *
                   (plan_.scale * Variant::dot_in_order(b_.q + r * depth_, b_.tmp, depth_));
        blocks(n, group)[j] = score;
      }
    }
  }

  void window_scores() {
    const int64_t end = seen(queries_ - 1);
    if (end > 0) products(0, 0, round_up(end, key_step<Variant>()));
    each_group(0, [&](int64_t n, int64_t group) {
      const int64_t keys = seen(n), lanes = round_up(keys, kLanePad);
      fill(b_.one, lanes, 0.0f);
      for (int64_t r = row(n, group); r < row(n, group) + index_.heads; ++r) {
        float* s = b_.s + r * b_.lds;
        SoftmaxState state = SoftmaxState::empty();
        fill(s + keys, lanes - keys, -kInfinity);
        if (plan_.scale > 0.0f) softmax_step<FloatVariant>(s, lanes, plan_.scale, state);
        if (!(plan_.scale > 0.0f) || state.sum != state.sum) exact_softmax(r, keys, lanes, state);
        add_probabilities(s, lanes, state.inverse_sum(), b_.one);
      }
      window_maxima(index_, b_.one, keys, candidates(n), blocks(n, group));
    });
  }

  // Exact softmax for a scale that would change -inf, or a row that sees a NaN.
  void exact_softmax(int64_t r, int64_t keys, int64_t lanes, SoftmaxState& state) {
    float* s = b_.s + r * b_.lds;
    key_products<Variant>(Operand{b_.q + r * depth_, depth_, 1}, 1, {keys_, depth_, kKvBlockKeys},
                          0, round_up(keys, key_step<Variant>()), {s, b_.lds});
    scale_row(s, lanes, plan_.scale);
    fill(s + keys, lanes - keys, -kInfinity);
    state = SoftmaxState::empty();
    online_softmax_row(s, lanes, 1.0f, state);
  }

  void choose() {
    each_group(0, [&](int64_t n, int64_t group) {
      TopkRule rule{};
      const int64_t count = candidates(n);
      rule.init = index_.init_blocks;
      rule.own = count - 1;
      rule.local = index_.local_blocks;
      const int64_t token = seg_.first_query + i0_ + n;
      int32_t* out = index_.topk_indices +
                     (token * index_.groups + key_head_ * groups_ + group) * index_.count;
      choose_blocks(rule, blocks(n, group), count, index_.count, out, b_.best);
    });
  }

 public:
  // sum += key number k of a segment.
  static void add_key(const AttentionPlan& plan, const Segment& seg, int64_t key_head, int64_t k,
                      float* tmp, float* sum) {
    to_float(plan.dtype, plan.key, seg.k + k * plan.k.row + key_head * plan.k.head, plan.D, tmp);
    add_to(sum, tmp, plan.D);
  }

 private:
  const AttentionPlan& plan_;
  const IndexerPlan& index_;
  const Segment& seg_;
  int64_t i0_, queries_, key_head_;
  int64_t groups_;  // of the key head
  int64_t depth_;
  const float* keys_;
  IndexerBuffers& b_;
};

// Packs keys [j0, j0 + n) of a key head of a segment, or that many means of blocks of them.
template <class Variant>
inline void pack_index_keys(const AttentionPlan& plan, const IndexerPlan& index, const Segment& seg,
                            int64_t key_head, int64_t j0, int64_t n, float* keys,
                            IndexerBuffers& b) {
  if (index.score != BlockScore::kMean) {
    const TensorRows rows = keys_of(plan, key_rows(plan, seg, key_head, j0, n));
    return pack_transposed<Variant>(rows, plan.D, kKvBlockKeys, keys, b.tmp);
  }
  for (int64_t j = 0; j < n; ++j) {
    const int64_t begin = (j0 + j) * index.block_size;
    const int64_t past = min64(begin + index.block_size, seg.range.kv_len);
    float* mean = b.means + j * plan.D;
    fill(mean, plan.D, 0.0f);
    for (int64_t k = begin; k < past; ++k)
      IndexerTile<Variant>::add_key(plan, seg, key_head, k, b.tmp, mean);
    const float count = static_cast<float>(past - begin);
    for (int64_t d = 0; d < plan.D; ++d) mean[d] /= count;
  }
  const TensorRows means = {ElemType::kFloat32, b.means, 0, plan.D, n};
  pack_transposed<Variant>(means, plan.D, kKvBlockKeys, keys, b.tmp);
}

template <class Variant>
void block_indexer_wave_of(const AttentionPlan& plan, const IndexerPlan& index, const Wave& wave,
                           const ForwardScratch& scratch, int threads) {
  const int64_t key_size = words<Variant>(plan.D) * kKvBlockKeys;
  run_forward<Variant>(
      scratch, wave.num_tiles, threads,
      [&](Arena& arena) { return IndexerBuffers::carve(arena, plan, index); },
      [&](const Member& member, IndexerBuffers& buffers) {
        for (int64_t p = 0; p < wave.num_pairs; ++p) {
          const KvPair& pair = wave.pairs[p];
          const Segment& seg = plan.segments[pair.segment];
          member.static_for(ceil_div(seg.kv_len, kKvBlockKeys), [&](int64_t kv_block) {
            const int64_t j0 = kv_block * kKvBlockKeys;
            pack_index_keys<Variant>(
                plan, index, seg, pair.kv_head, j0, min64(kKvBlockKeys, seg.kv_len - j0),
                scratch.keys + (pair.first_kv_block + kv_block) * key_size, buffers);
          });
        }
      },
      [&](int64_t n, IndexerBuffers& buffers) {
        const RowTile& tile = wave.tiles[n];
        const KvPair& pair = wave.pairs[tile.pair];
        IndexerTile<Variant>(plan, index, plan.segments[pair.segment], tile, pair.kv_head,
                             scratch.keys + pair.first_kv_block * key_size, buffers)
            .run();
      });
}

// Means are floats whatever the keys are.
template <class Variant>
void block_indexer_wave(const AttentionPlan& plan, const IndexerPlan& index, const Wave& wave,
                        const ForwardScratch& scratch, int threads) {
  if (index.score == BlockScore::kMean)
    return block_indexer_wave_of<FloatVariant>(plan, index, wave, scratch, threads);
  block_indexer_wave_of<Variant>(plan, index, wave, scratch, threads);
}

void block_indexer_by_dtype(const AttentionPlan& plan, const IndexerPlan& index, const Wave& wave,
                            const ForwardScratch& scratch, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return block_indexer_wave<VariantOfBFloat16>(plan, index, wave, scratch, threads);
  block_indexer_wave<FloatVariant>(plan, index, wave, scratch, threads);
}

int64_t block_indexer_thread_size(const AttentionPlan& plan, const IndexerPlan& index) {
  return measured([&](Arena& arena) { IndexerBuffers::carve(arena, plan, index); });
}

}  // namespace
}  // namespace nsa::cpu
