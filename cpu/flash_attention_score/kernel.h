// FlashAttentionScore: one region of a team per wave, first packing, then tiles. Its gradient:
// prepare a wave (pack, rowsum(dO O), zero the accumulators), then its units.
#pragma once

#include "cpu/engine/step/forward_wave.h"
#include "cpu/engine/step/grad_steps.h"
#ifdef NSA_ISA_AMX
#include "cpu/engine/step/forward_pieces.h"
#include "cpu/engine/step/grad_groups.h"
#endif

namespace nsa::cpu {
namespace {

template <class Path>
void flash_forward_wave(const AttentionPlan& plan, const Wave& wave, const ForwardScratch& scratch,
                        int threads) {
  run_forward_wave<Path>(
      plan, wave, scratch, threads,
      [&](Arena& arena) { return TileBuffers::carve(arena, plan.D, plan.Dv, scratch.tile_rows); },
      [](const TileContext& context, const PackedPair& packed, TileBuffers& buffers) {
        forward_tile<Path>(context, packed, buffers);
      });
}

#ifdef NSA_ISA_AMX
void flash_forward_in_pieces(const AttentionPlan& plan, const Wave& wave,
                             const ForwardScratch& scratch, int threads) {
  run_forward_wave<PiecesPath>(
      plan, wave, scratch, threads,
      [&](Arena& arena) { return PiecesTile::carve(arena, plan.D, plan.Dv, scratch.tile_rows); },
      [&](const TileContext& context, const PackedPair& packed, PiecesTile& buffers) {
        forward_tile_in_pieces(context, packed, context.first_head / plan.G, buffers);
      });
}
#endif

void flash_forward(const AttentionPlan& plan, const Wave& wave, const ForwardScratch& scratch,
                   int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return flash_forward_wave<PathOfBFloat16>(plan, wave, scratch, threads);
#ifdef NSA_ISA_AMX
  if (scratch.in_pieces) return flash_forward_in_pieces(plan, wave, scratch, threads);
#endif
  flash_forward_wave<FloatPath>(plan, wave, scratch, threads);
}

int64_t flash_forward_thread_size(int64_t D, int64_t Dv, int64_t tile_rows,
                                  [[maybe_unused]] bool in_pieces) {
  return measured([&](Arena& arena) {
#ifdef NSA_ISA_AMX
    if (in_pieces) return void(PiecesTile::carve(arena, D, Dv, tile_rows));
#endif
    TileBuffers::carve(arena, D, Dv, tile_rows);
  });
}

// Rows of a tile of one unit: queries, and all heads of their group where they fit.
struct UnitRows {
  const Segment& seg;
  int64_t first_head;  // of the tile
  int64_t i0, queries, heads;

  int64_t rows() const { return queries * heads; }
  int64_t query(int64_t r) const { return i0 + r / heads; }
  int64_t head(int64_t r) const { return first_head + r % heads; }
};

// Heads of a tile of a unit.
inline int64_t tile_heads(const AttentionGradPlan& plan) {
  return plan.groups == GradGroups::kQueries ? 1 : min64(plan.G, kTileRows);
}

// The rows after these, of the queries before i1, are asked for while these meet `keys` keys.
template <class Path>
inline void ask_for_next_rows(const AttentionGradPlan& plan, const GradPair& pair,
                              const UnitRows& rows, int64_t i1, int64_t keys, Ahead& ahead) {
  ahead.clear();
  const int64_t next = rows.i0 + rows.queries;
  if (next >= i1) return;
  ask_for_grad_rows(
      plan, pair,
      UnitRows{rows.seg, rows.first_head, next, min64(rows.queries, i1 - next), rows.heads}, ahead);
  int64_t steps = grad_step_steps<Path>(plan, rows.rows(), kTileKeys);
#ifdef NSA_ISA_AMX
  if (plan.in_groups())
    steps = 2 * GroupStep::asked(plan, ceil_div(rows.rows(), kPairLanes), kBlockKeys);
#endif
  ahead.over(steps * ceil_div(keys, kTileKeys));
}

// One tile of rows against the key chunk [j0, j1).
template <class Path>
inline void unit_tile(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                      int64_t j0, int64_t j1, const GradScratch& s, UnitBuffers& b) {
  const RowRange& range = c.seg.range;
  const int64_t rows = c.rows(), first = c.i0, last = c.query(rows - 1);
  const KeySums<Path> dk_sums = b.key_sums<Path>(b.dk, plan.D);
  const KeySums<Path> dv_sums = b.key_sums<Path>(b.dv, plan.Dv);
  if (range.hi(last) <= j0 || range.lo(first) >= j1) return;
  load_grad_rows<Path>(plan, c, pair.delta, b.tile);
  Into into_dq = Into::kReplace;
  const bool bias = plan.bias.changes_scores();
  for (int64_t j = j0; j < j1; j += kTileKeys) {
    const int64_t at = pair.first_packed + j / kBlockKeys, past = min64(j + kTileKeys, j1);
    const float* own = kOwnRows<Path> ? b.keys + (j - j0) * padded_row(plan.D) : nullptr;
    const GradKeys keys = packed_keys<Path>(plan, s, at, kBlockKeys, j, past - j, own);
    const int64_t lanes = round_up(past - j, kBlockKeys);
    const KeySums<Path> dk = dk_sums.key(j - j0), dv = dv_sums.key(j - j0);
    if (range.lo(last) <= j && range.hi(first) >= j + lanes) {
      grad_step<Path>(plan, c, keys, 0, rows, 0, lanes, !bias, b.tile, dk, dv, into_dq);
      into_dq = Into::kAdd;
      continue;
    }
    if (into_dq == Into::kReplace) fill(b.tile.dq, rows * padded_row(plan.D), 0.0f);
    into_dq = Into::kAdd;
    constexpr int64_t cut = cut_rows(Path::kForm), step = key_step<Path>();
    for (int64_t r0 = 0, r1; r0 < rows; r0 = r1) {
      r1 = past_cut(range, c, r0, rows, cut, step);
      const int64_t n0 = max64(0, (range.lo(c.query(r0)) - j) / step * step);
      const int64_t n1 = min64(lanes, round_up(range.hi(c.query(r1 - 1)) - j, step));
      if (n0 < n1) grad_step<Path>(plan, c, keys, r0, r1, n0, n1, false, b.tile, dk, dv);
    }
  }
  add_tile_dq(plan, pair, c, b.tile.dq);
}

#ifdef NSA_ISA_AMX
// Tells GroupLoader of the rows of a tile: whole groups, but for queries past the last.
class UnitPairs {
 public:
  UnitPairs(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
            const float* zeros)
      : plan_(plan), pair_(pair), c_(c), zeros_(zeros) {}

  int64_t groups() const { return ceil_div(c_.rows(), kGroupRows); }

  bool operator()(int64_t n, PairRows& rows, PairLanes& lanes) const {
    const RowRange& range = c_.seg.range;
    const bool heads = plan_.groups == GradGroups::kHeads;
    bool usual = true;
    for (int64_t turn = 0; turn < 2; ++turn) {
      const int64_t first = (2 * n + turn) * kGroupRows, there = c_.rows() - first;
      if (there <= 0) {
        put_group(plan_, pair_, 0, 0, turn, 0, zeros_, rows, lanes);
        continue;
      }
      const int64_t i = c_.query(first), count = min64(there, kGroupRows);
      usual = put_group(plan_, pair_, i, c_.head(first), turn, count, zeros_, rows, lanes) && usual;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t lane = group_lane(turn, r);
        lanes.lo[lane] = static_cast<float>(range.lo(heads ? i : i + r));
        lanes.hi[lane] = static_cast<float>(range.hi(heads ? i : i + r));
      }
    }
    return usual;
  }

  // The first and the last query of pair n.
  int64_t first(int64_t n) const { return c_.query(n * kPairLanes); }
  int64_t last(int64_t n) const { return c_.query(min64((n + 1) * kPairLanes, c_.rows()) - 1); }

 private:
  const AttentionGradPlan& plan_;
  const GradPair& pair_;
  const UnitRows& c_;
  const float* zeros_;
};

// Where the words of two keys of block n of a pair are, and how far apart: blocks 2 m and 2 m + 1
// share rows where there are both.
struct PairedKeys {
  float* data;
  int64_t ld;

  PairedKeys(const AttentionGradPlan& plan, const GradPair& pair, const GradScratch& s, int64_t n) {
    constexpr int64_t words = kBlockKeys / 2;
    const int64_t blocks = ceil_div(plan.segments[pair.segment].kv_len, kBlockKeys);
    const bool alone = n % 2 == 0 && n + 1 == blocks;
    data = s.key_pairs + (pair.first_packed + n / 2 * 2) * plan.D * words + n % 2 * words;
    ld = alone ? words : 2 * words;
  }
};

// Keys [j, j + lanes) of a pair, one block or two.
inline GroupKeys flash_group_keys(const AttentionGradPlan& plan, const GradPair& pair,
                                  const GradScratch& s, int64_t j, int64_t lanes) {
  const int64_t n = j / kBlockKeys;
  const PairedKeys paired(plan, pair, s, n);
  GroupKeys keys = group_keys(plan, s, pair.first_packed + n, kBlockKeys, j);
  keys.lanes = lanes;
  keys.kt = paired.data;
  keys.ld_kt = paired.ld;
  return keys;
}

// A loaded tile against `count` keys.
inline void group_step(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                       const UnitPairs& pairs, const GroupTile& tile, const GroupKeys& keys,
                       int64_t count, UnitBuffers& b) {
  const RowRange& range = c.seg.range;
  const int64_t j = keys.j0, past = j + keys.lanes;
  // Later rows see later keys.
  int64_t n0 = 0, n1 = tile.pairs();
  while (n0 < n1 && range.hi(pairs.last(n0)) <= j) ++n0;
  while (n0 < n1 && range.lo(pairs.first(n1 - 1)) >= past) --n1;
  if (n0 == n1) return;
  const GroupStep step(plan, keys, tile, b.groups, b.tile.ahead);
  step.scores(n0, n1, [&](int64_t n) {
    return count < keys.lanes || range.lo(pairs.last(n)) > j || range.hi(pairs.first(n)) < past;
  });
  GroupSums sums = key_group_sums(plan, pair, keys, count, b);
  for (int64_t n = 2 * n0; n < 2 * n1; ++n) {
    const int64_t r = n * kGroupRows;
    sums.dq[n] = n < tile.groups
                     ? dq_group(plan, pair, c.query(r), c.head(r) - pair.kv_head * plan.G)
                     : b.groups.nobody;
  }
  step.sums(n0, n1, sums, [] {});
  finish_key_sums(plan, pair, keys, count, b);
}

// unit_tile() on groups, the sums of keys included. False: it was left undone, some number being
// none, or some row having no maximum.
inline bool unit_tile_groups(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                             int64_t j0, int64_t j1, const GradScratch& s, UnitBuffers& b) {
  const RowRange& range = c.seg.range;
  if (range.hi(c.query(c.rows() - 1)) <= j0 || range.lo(c.i0) >= j1) return true;
  const int64_t block0 = pair.first_packed + j0 / kBlockKeys;
  if (!all_true(s.finite + block0, ceil_div(j1 - j0, kBlockKeys))) return false;
  GroupTile& tile = b.groups.tiles[0];
  const UnitPairs pairs(plan, pair, c, b.groups.zeros);
  GroupLoader loader(plan, tile, pairs.groups(), pairs);
  while (!loader.done()) loader.next();
  if (!tile.usual || !tile.finite()) return false;
  for (int64_t j = j0; j < j1;) {
    // A step of two blocks where it loses nothing.
    const bool two = j % kTileKeys == 0 && j + kTileKeys <= j1 &&
                     range.lo(pairs.last(tile.pairs() - 1)) <= j && range.hi(c.i0) >= j + kTileKeys;
    const GroupKeys keys = flash_group_keys(plan, pair, s, j, two ? kTileKeys : kBlockKeys);
    group_step(plan, pair, c, pairs, tile, keys, min64(keys.lanes, j1 - j), b);
    j += keys.lanes;
  }
  return true;
}

// The general way of a tile against keys [j0, j1), the sums of keys included.
inline void general_tile(const AttentionGradPlan& plan, const GradPair& pair, const UnitRows& c,
                         int64_t j0, int64_t j1, const GradScratch& s, UnitBuffers& b) {
  for (int64_t j = j0; j < j1; j += kBlockKeys) {
    const int64_t at = pair.first_packed + j / kBlockKeys, past = min64(j + kBlockKeys, j1);
    const GradScratch apart = pack_keys_apart(plan, pair, at, kBlockKeys, j, past - j, s, b);
    b.clear<AmxPath>(b.dk, plan.D, past - j);
    b.clear<AmxPath>(b.dv, plan.Dv, past - j);
    unit_tile<AmxPath>(plan, pair, c, j, past, apart, b);
    add_unit_keys<AmxPath>(plan, pair, j, past - j, b);
  }
}

// A unit of whole rows: every tile against all keys that it sees.
inline void run_whole_unit(const AttentionGradPlan& plan, const GradPair& pair, int64_t q_chunk,
                           const GradScratch& s, UnitBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = q_chunk * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const int64_t slot = q_chunk % pair.slots, heads = tile_heads(plan);
  const SlotKeys keys(seg, pair, slot);
  const int64_t sums = slot * pair.slot_keys;
  GradPair own = pair;
  own.dk = pair.dk + (sums - keys.first) * plan.D;
  own.dv = pair.dv + (sums - keys.first) * plan.Dv;
  own.dq = b.groups.dq;
  own.dq_strides.row = heads * plan.D;
  const int64_t queries = min64(kTileRows / heads, i1 - i0);
  for (int64_t g = 0; g < plan.G; g += heads) {
    for (int64_t i = i0; i < i1; i += queries) {
      const UnitRows rows{seg, pair.kv_head * plan.G + g, i, min64(queries, i1 - i),
                          min64(heads, plan.G - g)};
      // Whole blocks, whose sums need no buffers of the unit.
      const int64_t past = round_up(seg.range.hi(rows.query(rows.rows() - 1)), kBlockKeys);
      const int64_t j0 = seg.range.lo(i) / kBlockKeys * kBlockKeys, j1 = min64(past, seg.kv_len);
      ask_for_next_rows<AmxPath>(plan, pair, rows, i1, max64(0, j1 - j0), b.tile.ahead);
      // Where the accumulators have the tile's first group.
      own.dq = b.groups.dq - (dq_group(plan, own, i, g) - own.dq);
      fill(b.groups.dq, kTileRows * plan.D, 0.0f);
      if (units_prepare(plan, pair)) {
        const int64_t first = i * plan.G + g, last = first + rows.rows();
        for (int64_t r = first; r < last; r += W)
          prepare_rows(plan, pair, r, min64(r + W, last), b.tile);
      }
      if (j0 < j1 && !unit_tile_groups(plan, own, rows, j0, j1, s, b))
        general_tile(plan, own, rows, j0, j1, s, b);
      for (int64_t r = 0; r < rows.rows(); r += kGroupRows) {
        const int64_t at = seg.q + rows.query(r) * plan.q.row + rows.head(r) * plan.q.head;
        write_dq_group(plan, b.groups.dq + r * plan.D, at, min64(kGroupRows, rows.rows() - r),
                       plan.groups == GradGroups::kHeads ? plan.q.head : plan.q.row);
      }
    }
  }
}
#endif

// Whether a query of a chunk sees a key of a chunk, the share being its own.
inline bool chunks_meet(const AttentionGradPlan& plan, const GradPair& pair, int64_t q_chunk,
                        int64_t kv_chunk) {
  if (pair.whole()) return q_chunk % pair.slots == kv_chunk;
  if (!pair.shared(q_chunk, kv_chunk)) return false;
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = q_chunk * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const int64_t j0 = pair.chunk_of_keys(kv_chunk) * pair.kv_chunk;
  const int64_t j1 = min64(j0 + pair.kv_chunk, seg.kv_len);
  return seg.range.hi(i1 - 1) > j0 && seg.range.lo(i0) < j1;
}

template <class Path>
inline void run_unit(const AttentionGradPlan& plan, const GradPair& pair, int64_t q_chunk,
                     int64_t kv_chunk, const GradScratch& s, UnitBuffers& b) {
#ifdef NSA_ISA_AMX
  if constexpr (kRowsOnly<Path>) {
    if (pair.whole()) return run_whole_unit(plan, pair, q_chunk, s, b);
  }
#endif
  const Segment& seg = plan.segments[pair.segment];
  const int64_t i0 = q_chunk * pair.q_chunk, i1 = min64(i0 + pair.q_chunk, seg.q_len);
  const int64_t j0 = pair.chunk_of_keys(kv_chunk) * pair.kv_chunk;
  const int64_t j1 = min64(j0 + pair.kv_chunk, seg.kv_len);
  if (!plan.in_groups()) {
    b.clear<Path>(b.dk, plan.D, j1 - j0);
    b.clear<Path>(b.dv, plan.Dv, j1 - j0);
  }
  if constexpr (kOwnRows<Path>)
    pack_key_rows<Path>(plan, pair, round_up(j1 - j0, kBlockKeys), j0, j1 - j0, b.keys);
  const int64_t heads = tile_heads(plan);
  const int64_t queries = min64(kTileRows / heads, i1 - i0);
  for (int64_t g = 0; g < plan.G; g += heads) {
    for (int64_t i = i0; i < i1; i += queries) {
      UnitRows rows{seg, pair.kv_head * plan.G + g, i, min64(queries, i1 - i),
                    min64(heads, plan.G - g)};
      ask_for_next_rows<Path>(plan, pair, rows, i1, j1 - j0, b.tile.ahead);
#ifdef NSA_ISA_AMX
      if (plan.in_groups()) {
        if constexpr (kRowsOnly<Path>) {
          if (!unit_tile_groups(plan, pair, rows, j0, j1, s, b))
            general_tile(plan, pair, rows, j0, j1, s, b);
        }
        continue;
      }
#endif
      unit_tile<Path>(plan, pair, rows, j0, j1, s, b);
    }
  }
  if (!plan.in_groups()) add_unit_keys<Path>(plan, pair, j0, j1 - j0, b);
}

template <class Path>
void flash_backward_wave(const AttentionGradPlan& plan, const GradWave& wave,
                         const GradScratch& scratch, int64_t max_kv_chunk, int threads) {
  run_backward_wave<Path>(
      plan, wave, scratch, max_kv_chunk, threads,
      [&](const Member& member, GradBuffers& b) {
        for (int64_t p = 0; p < wave.num_pairs; ++p) {
          const GradPair& pair = wave.pairs[p];
          const int64_t keys = plan.segments[pair.segment].kv_len;
          member.share(ceil_div(keys, kBlockKeys), [&](int64_t block) {
            const int64_t j0 = block * kBlockKeys, count = min64(kBlockKeys, keys - j0);
            const int64_t at = pair.first_packed + block;
#ifdef NSA_ISA_AMX
            if (kRowsOnly<Path> && plan.in_groups()) {
              const PairedKeys paired(plan, pair, scratch, block);
              pack_group_keys(plan, pair, at, kBlockKeys, j0, count, scratch, paired.data,
                              paired.ld, b.dq);
              return;
            }
#endif
            scratch.finite[at] =
                pack_grad_keys<Path>(plan, pair, at, kBlockKeys, j0, count, scratch, b.tmp);
#ifdef NSA_ISA_AMX
            if (plan.scores_in_pieces)
              pack_key_pieces(plan, pair, at, j0, count, scratch, b.q_pieces);
#endif
          });
        }
      },
      [&](const GradPair& pair, int64_t q_chunk, int64_t kv_chunk) {
        return chunks_meet(plan, pair, q_chunk, kv_chunk);
      },
      [&](const GradPair& pair, int64_t q_chunk, int64_t kv_chunk, UnitBuffers& b) {
        run_unit<Path>(plan, pair, q_chunk, kv_chunk, scratch, b);
      });
}

void flash_backward(const AttentionGradPlan& plan, const GradWave& wave, const GradScratch& scratch,
                    int64_t max_kv_chunk, int threads) {
  if (plan.dtype == ElemType::kBFloat16)
    return flash_backward_wave<GradPathOfBFloat16>(plan, wave, scratch, max_kv_chunk, threads);
  flash_backward_wave<FloatPath>(plan, wave, scratch, max_kv_chunk, threads);
}

// dsink_h = - sum over rows of exp(sink - max) / sum * delta.
void flash_dsink(const AttentionGradPlan& plan, float* tmp, int64_t tmp_size, int threads) {
  const auto dsink_of = [&](int64_t head, float* dy) {
    double sum = 0;
    for (int64_t b = 0; b < plan.num_segments; ++b) {
      const Segment& seg = plan.segments[b];
      for (int64_t i = 0; i < seg.q_len; ++i) {
        const int64_t stat = seg.stat + i * plan.stat.row + head * plan.stat.head;
        const float max = load1(ElemType::kFloat32, plan.softmax_max, stat);
        const float inv =
            SoftmaxState::inverse_of(max, load1(ElemType::kFloat32, plan.softmax_sum, stat));
        const int64_t at = seg.o + i * plan.o.row + head * plan.o.head;
        const float dot = row_dot<FloatPath>(plan, at, dy, dy + tmp_size);
        sum -= exp1(plan.sink[head] - max) * inv * row_delta(plan, dot, stat);
      }
    }
    plan.dsink[head] = static_cast<float>(sum);
  };
  in_team(threads, [&](const Member& member) {
    float* dy = tmp + member.number * 2 * tmp_size;
    member.take(plan.N1, [&](int64_t head) { dsink_of(head, dy); });
  });
}

}  // namespace
}  // namespace nsa::cpu
