// What of a gradient call does not depend on how rows meet keys: what a unit sums in, the
// accumulators of a pair, and a wave from the first to the last. Pairs are GradPair or extend it.
// At the end stands the other way that the translation unit being compiled may have.
#pragma once

#include "cpu/engine/plan/grad_schedule.h"
#include "cpu/engine/step/grad_tile.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {
namespace {

// What the gradient on AMX tiles keeps in scratch is plain data, which every translation unit can
// name; only one with tiles has it.

// Rows of a strip, whose dQ is summed transposed: [D, kStripRows].
constexpr int64_t kStripRows = kAmxTile;
static_assert(kStripRows == kGradStrip);
// Lanes of a product, two strips of rows or a swath, and its keys.
constexpr int64_t kSwathLanes = 2 * kStripRows;
constexpr int64_t kProductKeys = 2 * kAmxTile;
// Most swaths of a tile.
constexpr int64_t kTileSwaths = kTileRows / kSwathLanes;
static_assert(kTileKeys % kProductKeys == 0);

// Interleaving two rows of keys puts lanes 0 to 3 of every 8 first. So fours of the two strips take
// turns, and after it their lanes stand together.
constexpr int64_t strip_lane(int64_t turn, int64_t row) { return row / 4 * 8 + turn * 4 + row % 4; }

// Of a swath's lanes what P and dS are computed with.
struct SwathLanes {
  float max[kSwathLanes];
  float inv[kSwathLanes];
  float delta[kSwathLanes];
  // The visible keys of the segment are [lo, hi).
  float lo[kSwathLanes];
  float hi[kSwathLanes];
};

// A slab of keys.
struct StripKeys {
  const float* k;   // [lanes, words(D)], ld_k apart
  const float* v;   // [lanes, words(Dv)], ld_v apart
  const float* kt;  // [D, lanes / 2] words of two keys, ld_kt apart
  int64_t lanes, ld_k, ld_v, ld_kt;
  int64_t j0;  // the first key's place in the segment
};

// A tile's rows in the forms that its products read.
struct StripTile {
  int64_t strips;     // of kStripRows rows
  float* q_t;         // [kTileSwaths, words(D), kSwathLanes]
  float* dy_t;        // [kTileSwaths, words(Dv), kSwathLanes]
  float* q_words;     // [kTileRows / 2, D padded] words of two rows
  float* dy_words;    // [kTileRows / 2, Dv padded]
  SwathLanes* lanes;  // [kTileSwaths]
  float* top;         // [W] the largest magnitudes of both, as bf16
  bool usual;         // all rows have a maximum that is moderate

  int64_t swaths() const { return ceil_div(strips, 2); }

  static StripTile carve(Arena& arena, int64_t D, int64_t Dv) {
    StripTile t{};
    t.q_t = arena.take<float>(kTileSwaths * D / 2 * kSwathLanes);
    t.dy_t = arena.take<float>(kTileSwaths * Dv / 2 * kSwathLanes);
    t.q_words = arena.take<float>(kTileRows / 2 * padded_row(D));
    t.dy_words = arena.take<float>(kTileRows / 2 * padded_row(Dv));
    t.lanes = arena.take<SwathLanes>(kTileSwaths);
    t.top = arena.take<float>(W);
    return t;
  }
};

struct StripBuffers {
  StripTile tiles[2];  // one in work, one that is loaded
  float* p;            // [kTileKeys, kRowWords] words of two rows
  float* ds;           // likewise
  float* ds_keys;      // [kTileKeys / 2, kLanes] words of two keys
  float* scores;       // [kTileSwaths, kTileKeys, kSwathLanes] raw S^T
  float* products;     // [kTileSwaths, kTileKeys, kSwathLanes] dP^T
  float* dq;           // [kTileRows / kStripRows, D, kStripRows] of a tile that meets all its keys
  float* keys_t;       // [words(D), kTileKeys] keys of a tile that takes the general way
  float* values_t;     // [words(Dv), kTileKeys] likewise
  float* keys;         // [words(kTileKeys), D padded] likewise
  float* nobody;       // [D, kStripRows] dQ of a strip that is not there
  float* zeros;        // a row of it

  static constexpr int64_t kLanes = padded_row(kTileRows);

  static StripBuffers carve(Arena& arena, int64_t D, int64_t Dv) {
    StripBuffers b;
    for (StripTile& tile : b.tiles) tile = StripTile::carve(arena, D, Dv);
    b.p = arena.take<float>(kTileKeys * kRowWords);
    b.ds = arena.take<float>(kTileKeys * kRowWords);
    b.ds_keys = arena.take<float>(kTileKeys / 2 * kLanes);
    b.scores = arena.take<float>(kTileKeys * kTileRows);
    b.products = arena.take<float>(kTileKeys * kTileRows);
    b.dq = arena.take<float>(kTileRows * D);
    b.keys_t = arena.take<float>(kTileKeys * D / 2);
    b.values_t = arena.take<float>(kTileKeys * Dv / 2);
    b.keys = arena.take<float>(kTileKeys / 2 * padded_row(D));
    b.nobody = arena.take<float>(D * kStripRows);
    b.zeros = arena.take<float>(max64(D, Dv) / 2);
    return b;
  }
  // Before the units of a thread.
  void begin(int64_t D, int64_t Dv) const {
    fill(nobody, D * kStripRows, 0.0f);
    fill(zeros, max64(D, Dv) / 2, 0.0f);
  }
};

struct UnitBuffers {
  GradBuffers tile;
  StripBuffers strips;  // of tiles
  float* dk;            // [keys of a chunk, D padded], or [D padded, keys of a chunk]: KeySums
  float* dv;            // likewise of Dv
  int64_t ld_keys;      // where the keys are columns
  float* keys;          // [keys of a chunk, D padded]; kOwnRows

  template <class Path>
  static UnitBuffers carve(Arena& arena, int64_t D, int64_t Dv, int64_t kv_chunk) {
    UnitBuffers b{};
    b.tile = GradBuffers::carve<Path>(arena, D, Dv);
    if constexpr (kRowsOnly<Path>) b.strips = StripBuffers::carve(arena, D, Dv);
    b.ld_keys = padded_row(kv_chunk);
    const int64_t keys = kRowsOnly<Path> ? b.ld_keys : kv_chunk;
    b.dk = arena.take<float>(keys * padded_row(D));
    b.dv = arena.take<float>(keys * padded_row(Dv));
    b.keys =
        kOwnRows<Path> ? arena.take<float>(round_up(kv_chunk, kTileKeys) * padded_row(D)) : nullptr;
    return b;
  }

  template <class Path>
  KeySums<Path> key_sums(float* data, int64_t dim) const {
    return {data, kRowsOnly<Path> ? ld_keys : padded_row(dim)};
  }
  template <class Path>
  void clear(float* data, int64_t dim, int64_t keys) const {
    fill(data, (kRowsOnly<Path> ? ld_keys : keys) * padded_row(dim), 0.0f);
  }
};

// Where dq of the strip of query i and head g of its key head is accumulated.
inline float* dq_strip(const AttentionGradPlan& plan, const GradPair& pair, int64_t i, int64_t g) {
  constexpr int64_t n = kGradStrip;
  if (plan.strips == GradStrips::kHeads) return pair.dq + pair.dq_row(i) + g / n * n * plan.D;
  return pair.dq + pair.dq_row(i / n * n) + g * n * plan.D;
}

// dq of a tile's rows, whose query(r) and head(r) c tells, goes to the accumulators.
template <class Rows>
inline void add_tile_dq(const AttentionGradPlan& plan, const GradPair& pair, const Rows& c,
                        const float* dq) {
  const int64_t ld = padded_row(plan.D);
  each_row(c, [&](int64_t r, int64_t i, int64_t head) {
    const int64_t g = head - pair.kv_head * plan.G;
    if (plan.in_strips()) {
      const int64_t lane = (plan.strips == GradStrips::kHeads ? g : i) % kGradStrip;
      float* column = dq_strip(plan, pair, i, g) + lane;
      for (int64_t d = 0; d < plan.D; ++d) column[d * kGradStrip] += dq[r * ld + d];
      return;
    }
    add_scaled(pair.dq + pair.dq_row(i) + g * pair.dq_strides.head, dq + r * ld, plan.D,
               plan.scale);
  });
}

// Whether delta and statistics of a row are prepared by the one unit that has it, beside reading
// its dO: rows of a tile are then next to each other in them.
inline bool units_prepare(const AttentionGradPlan& plan, const GradPair& pair) {
  return pair.whole() && plan.strips == GradStrips::kHeads;
}

// What a tile of these rows will read is asked for in the steps of the tile before it.
template <class Rows>
inline void ask_for_grad_rows(const AttentionGradPlan& plan, const GradPair& pair, const Rows& c,
                              Ahead& ahead) {
  each_row(c, [&](int64_t, int64_t i, int64_t head) {
    const int64_t g = head - pair.kv_head * plan.G;
    ahead.add(plan.dtype, plan.query, c.seg.q + i * plan.q.row + head * plan.q.head, plan.D);
    ahead.add(plan.dtype, plan.dy, c.seg.o + i * plan.o.row + head * plan.o.head, plan.Dv);
    if (units_prepare(plan, pair))
      ahead.add(plan.dtype, plan.out, c.seg.o + i * plan.o.row + head * plan.o.head, plan.Dv);
    if (pair.whole()) return;
    if (plan.in_strips()) {
      const int64_t row = (plan.strips == GradStrips::kHeads ? g : i) % kGradStrip;
      ahead.add(dq_strip(plan, pair, i, g) + row * plan.D, plan.D);
      return;
    }
    ahead.add(pair.dq + pair.dq_row(i) + g * pair.dq_strides.head, plan.D);
  });
}

// The sums of `count` keys, `dim` of each, scaled, go to rows dst of the accumulators.
template <class Path>
inline void add_key_sums(KeySums<Path> sums, int64_t count, int64_t dim, float scale, float* dst,
                         int64_t row) {
  if constexpr (kRowsOnly<Path>) {
    alignas(64) float square[W * W];
    for (int64_t j = 0; j < count; j += W) {
      for (int64_t d = 0; d < dim; d += W) {
        Path::transpose(sums.data + d * sums.ld + j, sums.ld, square, W);
        for (int64_t n = 0; n < min64(W, count - j); ++n)
          add_scaled(dst + (j + n) * row + d, square + n * W, min64(W, dim - d), scale);
      }
    }
    return;
  }
  for (int64_t j = 0; j < count; ++j) add_scaled(dst + j * row, sums.key(j).data, dim, scale);
}

// The unit's sums for keys [j0, j0 + count) go to the accumulators.
template <class Path>
inline void add_unit_keys(const AttentionGradPlan& plan, const GradPair& pair, int64_t j0,
                          int64_t count, const UnitBuffers& b) {
  add_key_sums(b.key_sums<Path>(b.dk, plan.D), count, plan.D, plan.in_strips() ? 1.0f : plan.scale,
               pair.dk + j0 * pair.dk_row, pair.dk_row);
  add_key_sums(b.key_sums<Path>(b.dv, plan.Dv), count, plan.Dv, 1.0f, pair.dv + j0 * pair.dv_row,
               pair.dv_row);
}

// delta of rows [first, past) from rowsum(dO O): row r is head r % G of the group, query r / G.
inline void add_sum_grads(const AttentionGradPlan& plan, const GradPair& pair, int64_t first,
                          int64_t past) {
  if (plan.sum_grad == nullptr) return;
  const Segment& seg = plan.segments[pair.segment];
  for (int64_t r = first; r < past; ++r) {
    const int64_t head = pair.kv_head * plan.G + r % plan.G;
    const int64_t stat = seg.stat + r / plan.G * plan.stat.row + head * plan.stat.head;
    pair.delta[r] = row_delta(plan, pair.delta[r], stat);
  }
}

// delta of rows [first, past), at most kDots: row r is head r % G of the group, query r / G.
template <class Path>
inline void prepare_dots(const AttentionGradPlan& plan, const GradPair& pair, int64_t first,
                         int64_t past, GradBuffers& b) {
  static_assert(2 * kDots <= kTileRows);
  const Segment& seg = plan.segments[pair.segment];
  const int64_t ld = padded_row(plan.Dv), count = past - first;
  float *delta = pair.delta + first, *out = b.dy + kDots * ld;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t i = (first + n) / plan.G, head = pair.kv_head * plan.G + (first + n) % plan.G;
    const int64_t at = seg.o + i * plan.o.row + head * plan.o.head;
    if (count < kDots) {
      delta[n] = row_dot<Path>(plan, at, b.dy, b.tmp);
      continue;
    }
    pack_row<Path>(plan.dtype, plan.dy, at, plan.Dv, b.dy + n * ld);
    pack_row<Path>(plan.dtype, plan.out, at, plan.Dv, out + n * ld);
  }
  if (count == kDots) Path::dots_in_order(b.dy, out, ld, words<Path>(plan.Dv), delta);
  add_sum_grads(plan, pair, first, past);
}

// What a gradient on tiles does differently: amx_grad.h.

// How often the step of so many rows calls Ahead::step().
template <class Path>
inline int64_t strip_steps(const AttentionGradPlan& plan, int64_t rows, int64_t keys);
// delta of rows [first, past), at most W, all of them at once. Dv is a multiple of 2 W.
template <class Path>
inline void prepare_rows(const AttentionGradPlan& plan, const GradPair& pair, int64_t first,
                         int64_t past, GradBuffers& b);
// Scales and rounds dq of the strips that begin with query i.
template <class Path>
inline void write_dq_strips(const AttentionGradPlan& plan, const GradPair& pair, int64_t i);
// Rounds dk and dv to the outputs where they are in slots.
template <class Path>
inline void write_slot_sums(const Member& member, const AttentionGradPlan& plan,
                            const GradPair& pair, UnitBuffers& b);

// The queries of a range, as the bounds of a loop.
struct QueryRange {
  int64_t first, past;

  QueryRange(const AttentionGradPlan& plan, const GradPair& pair, int64_t range)
      : first(min64(range * pair.range_queries(), plan.segments[pair.segment].q_len)),
        past(min64(first + pair.range_queries(), plan.segments[pair.segment].q_len)) {}
};

// The functions below are called by all members of a team.

template <class Path, class Pair>
inline void prepare_accumulators(const Member& member, const AttentionGradPlan& plan,
                                 const Pair& pair, GradBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  bool prepared = false;
  if constexpr (kRowsOnly<Path>) {
    prepared = plan.Dv % (2 * W) == 0;
    const int64_t rows = prepared && !units_prepare(plan, pair) ? seg.q_len * plan.G : 0;
    member.share(ceil_div(rows, W), [&](int64_t n) {
      prepare_rows<Path>(plan, pair, n * W, min64((n + 1) * W, rows), b);
    });
  }
  const int64_t rows = prepared ? 0 : seg.q_len * plan.G;
  member.share(ceil_div(rows, kDots), [&](int64_t n) {
    prepare_dots<Path>(plan, pair, n * kDots, min64((n + 1) * kDots, rows), b);
  });
  member.share(pair.sum_rows(seg), [&](int64_t j) {
    fill(pair.dk + j * pair.dk_row, plan.D, 0.0f);
    fill(pair.dv + j * pair.dv_row, plan.Dv, 0.0f);
  });
  member.share(pair.lead_rows(), [&](int64_t j) {
    fill(pair.lead_dk + j * plan.D, plan.D, 0.0f);
    fill(pair.lead_dv + j * plan.Dv, plan.Dv, 0.0f);
  });
}

// Zeros for dq of a range.
template <class Pair>
inline void clear_dq(const Member& member, const AttentionGradPlan& plan, const Pair& pair,
                     int64_t range) {
  if (pair.whole()) return;
  const QueryRange queries(plan, pair, range);
  const int64_t past = plan.in_strips() ? round_up(queries.past, kGradStrip) : queries.past;
  member.share(past - queries.first, [&](int64_t n) {
    float* dq = pair.dq + pair.dq_row(queries.first + n);
    for (int64_t g = 0; g < plan.G; ++g) fill(dq + g * pair.dq_strides.head, plan.D, 0.0f);
  });
}

// Rounds dq of a range to the output, for 16-bit types.
template <class Path, class Pair>
inline void write_dq(const Member& member, const AttentionGradPlan& plan, const Pair& pair,
                     int64_t range) {
  if (plan.dtype == ElemType::kFloat32 || pair.whole()) return;
  const Segment& seg = plan.segments[pair.segment];
  const QueryRange queries(plan, pair, range);
  member.share(queries.past - queries.first, [&](int64_t n) {
    const int64_t i = queries.first + n;
    if constexpr (kRowsOnly<Path>) {
      if (plan.in_strips()) return write_dq_strips<Path>(plan, pair, i);
    }
    for (int64_t g = 0; g < plan.G; ++g) {
      from_float(plan.dtype, pair.dq + pair.dq_row(i) + g * pair.dq_strides.head, plan.D, plan.dq,
                 seg.q + i * plan.q.row + (pair.kv_head * plan.G + g) * plan.q.head);
    }
  });
}

// The same of dk and dv, and of float32 where shares have been summed apart.
template <class Path, class Pair>
inline void write_key_sums(const Member& member, const AttentionGradPlan& plan, const Pair& pair,
                           [[maybe_unused]] UnitBuffers& b) {
  const bool there = plan.dtype == ElemType::kFloat32 && pair.shares == 1;
  if constexpr (kRowsOnly<Path>) {
    if (pair.whole()) return write_slot_sums<Path>(member, plan, pair, b);
  }
  const Segment& seg = plan.segments[pair.segment];
  member.share(there ? pair.lead_keys : seg.kv_len, [&](int64_t j) {
    for (int64_t share = 1; share < pair.shares; ++share) {
      const int64_t at = share * seg.kv_len + j;
      add_scaled(pair.dk + j * plan.D, pair.dk + at * plan.D, plan.D, 1.0f);
      add_scaled(pair.dv + j * plan.Dv, pair.dv + at * plan.Dv, plan.Dv, 1.0f);
    }
    for (int64_t at = j; j < pair.lead_keys && at < pair.lead_rows(); at += pair.lead_keys) {
      add_scaled(pair.dk + j * pair.dk_row, pair.lead_dk + at * plan.D, plan.D, 1.0f);
      add_scaled(pair.dv + j * pair.dv_row, pair.lead_dv + at * plan.Dv, plan.Dv, 1.0f);
    }
    if (there) return;
    if (kRowsOnly<Path> && plan.in_strips())
      scale_row(pair.dk + j * pair.dk_row, plan.D, plan.scale);
    from_float(plan.dtype, pair.dk + j * pair.dk_row, plan.D, plan.dk,
               seg.k + j * plan.k.row + pair.kv_head * plan.k.head);
    from_float(plan.dtype, pair.dv + j * pair.dv_row, plan.Dv, plan.dv,
               seg.v + j * plan.v.row + pair.kv_head * plan.v.head);
  });
}

// A wave in one region: all members call pack(member, buffers), and the accumulators are prepared;
// then come unit(pair, query chunk, key chunk, buffers) for all units whose chunks meet, and dq,
// range by range, and the other outputs.
template <class Path, class WaveType, class Pack, class Meet, class Unit>
void run_backward_wave(const AttentionGradPlan& plan, const WaveType& wave,
                       const GradScratch& scratch, int64_t max_kv_chunk, int threads,
                       const Pack& pack, const Meet& meet, const Unit& unit) {
  in_team(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    UnitBuffers buffers = UnitBuffers::carve<Path>(arena, plan.D, plan.Dv, max_kv_chunk);
    Path::begin();
    if (kScoresSplit<Path> && plan.scores_in_pieces) Path::Scores::begin();
    if (kRowsOnly<Path> && plan.in_strips()) buffers.strips.begin(plan.D, plan.Dv);
    pack(member, buffers.tile);
    for (int64_t p = 0; p < wave.num_pairs; ++p)
      prepare_accumulators<Path>(member, plan, wave.pairs[p], buffers.tile);
    int64_t ranges = 1;
    for (int64_t p = 0; p < wave.num_pairs; ++p) ranges = max64(ranges, wave.pairs[p].ranges());
    for (int64_t range = 0; range < ranges; ++range) {
      if (range > 0) member.meet();
      for (int64_t p = 0; p < wave.num_pairs; ++p) clear_dq(member, plan, wave.pairs[p], range);
      if (member.number == 0) begin_units(wave, scratch);
      member.meet();
      run_units(wave, scratch, range, meet, [&](auto pair, int64_t q_chunk, int64_t kv_chunk) {
        pair.to_share(plan, kv_chunk);
        unit(pair, q_chunk, kv_chunk, buffers);
      });
      member.meet();
      for (int64_t p = 0; p < wave.num_pairs; ++p)
        write_dq<Path>(member, plan, wave.pairs[p], range);
    }
    for (int64_t p = 0; p < wave.num_pairs; ++p)
      write_key_sums<Path>(member, plan, wave.pairs[p], buffers);
    if (kScoresSplit<Path> && plan.scores_in_pieces) Path::Scores::end();
    Path::end();
  });
}

int64_t grad_thread_size(ElemType dtype, int64_t D, int64_t Dv, int64_t max_kv_chunk) {
  return measured([&](Arena& arena) {
    if (dtype == ElemType::kBFloat16) {
      UnitBuffers::carve<PathOfBFloat16>(arena, D, Dv, max_kv_chunk);
    } else {
      UnitBuffers::carve<GradPathOfFloat>(arena, D, Dv, max_kv_chunk);
    }
  });
}

}  // namespace
}  // namespace nsa::cpu

#ifdef NSA_ISA_AMX
#include "cpu/engine/step/amx_grad.h"
#endif
