// The part of a gradient call that does not depend on which rows see which keys: buffers of a work
// item, the accumulators of a pair, and a wave from begin to end. Pairs are GradPair or extend it.
// The end includes the other kernel variant that the translation unit being compiled may have.
#pragma once

#include "cpu/engine/plan/grad_schedule.h"
#include "cpu/engine/step/grad_tile.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {
namespace {

// Scratch of the gradient on AMX tiles is plain data, so that every translation unit can name it;
// only one with tiles allocates it.

// Rows of a 16-row tile, whose dQ is summed transposed: [D, kTile16Rows].
constexpr int64_t kTile16Rows = kAmxTile;
static_assert(kTile16Rows == kGradTile16);
// Lanes of a product, two 16-row tiles or a 32-row tile, and its keys.
constexpr int64_t kTile32Lanes = 2 * kTile16Rows;
constexpr int64_t kProductKeys = 2 * kAmxTile;
// Most 32-row tiles of a tile.
constexpr int64_t kMostTile32 = kTileRows / kTile32Lanes;
static_assert(kTileKeys % kProductKeys == 0);

// Interleaving two rows of keys puts lanes 0 to 3 of every 8 first. So fours of the two 16-row
// tiles take turns, and after it their lanes stand together.
constexpr int64_t tile16_lane(int64_t turn, int64_t row) {
  return row / 4 * 8 + turn * 4 + row % 4;
}

// Inputs of P and dS of a 32-row tile, lane by lane.
struct Tile32Lanes {
  float max[kTile32Lanes];
  float inv[kTile32Lanes];
  float delta[kTile32Lanes];
  // The visible keys of the segment are [lo, hi).
  float lo[kTile32Lanes];
  float hi[kTile32Lanes];
};

// A KV block.
struct Tile16Keys {
  const float* k;   // [lanes, words(D)], ld_k apart
  const float* v;   // [lanes, words(Dv)], ld_v apart
  const float* kt;  // [D, lanes / 2] words of two keys, ld_kt apart
  int64_t lanes, ld_k, ld_v, ld_kt;
  int64_t j0;  // the first key's place in the segment
};

// A tile's rows in the forms that its products read.
struct Tile16Rows {
  int64_t tile16s;     // of kTile16Rows rows
  float* q_t;          // [kMostTile32, words(D), kTile32Lanes]
  float* dy_t;         // [kMostTile32, words(Dv), kTile32Lanes]
  float* q_words;      // [kTileRows / 2, D padded] words of two rows
  float* dy_words;     // [kTileRows / 2, Dv padded]
  Tile32Lanes* lanes;  // [kMostTile32]
  float* top;          // [W] the largest magnitudes of both, as bf16
  bool in_range;       // all rows have a maximum that is in the range of exp

  int64_t tile32s() const { return ceil_div(tile16s, 2); }

  static Tile16Rows carve(Arena& arena, int64_t D, int64_t Dv) {
    Tile16Rows t{};
    t.q_t = arena.take<float>(kMostTile32 * D / 2 * kTile32Lanes);
    t.dy_t = arena.take<float>(kMostTile32 * Dv / 2 * kTile32Lanes);
    t.q_words = arena.take<float>(kTileRows / 2 * padded_row(D));
    t.dy_words = arena.take<float>(kTileRows / 2 * padded_row(Dv));
    t.lanes = arena.take<Tile32Lanes>(kMostTile32);
    t.top = arena.take<float>(W);
    return t;
  }
};

struct Tile16Buffers {
  Tile16Rows tiles[2];  // one in work, one that is loaded
  float* p;             // [kTileKeys, kRowWords] words of two rows
  float* ds;            // likewise
  float* ds_keys;       // [kTileKeys / 2, kLanes] words of two keys
  float* scores;        // [kMostTile32, kTileKeys, kTile32Lanes] raw S^T
  float* products;      // [kMostTile32, kTileKeys, kTile32Lanes] dP^T
  float* dq;        // [kTileRows / kTile16Rows, D, kTile16Rows] of a tile that meets all its keys
  float* keys_t;    // [words(D), kTileKeys] keys of a tile that takes the general code
  float* values_t;  // [words(Dv), kTileKeys] likewise
  float* keys;      // [words(kTileKeys), D padded] likewise
  float* nobody;    // [D, kTile16Rows] dQ of a 16-row tile that is not there
  float* zeros;     // a row of it

  static constexpr int64_t kLanes = padded_row(kTileRows);

  static Tile16Buffers carve(Arena& arena, int64_t D, int64_t Dv) {
    Tile16Buffers b;
    for (Tile16Rows& tile : b.tiles) tile = Tile16Rows::carve(arena, D, Dv);
    b.p = arena.take<float>(kTileKeys * kRowWords);
    b.ds = arena.take<float>(kTileKeys * kRowWords);
    b.ds_keys = arena.take<float>(kTileKeys / 2 * kLanes);
    b.scores = arena.take<float>(kTileKeys * kTileRows);
    b.products = arena.take<float>(kTileKeys * kTileRows);
    b.dq = arena.take<float>(kTileRows * D);
    b.keys_t = arena.take<float>(kTileKeys * D / 2);
    b.values_t = arena.take<float>(kTileKeys * Dv / 2);
    b.keys = arena.take<float>(kTileKeys / 2 * padded_row(D));
    b.nobody = arena.take<float>(D * kTile16Rows);
    b.zeros = arena.take<float>(max64(D, Dv) / 2);
    return b;
  }
  // Before the work items of a thread.
  void begin(int64_t D, int64_t Dv) const {
    fill(nobody, D * kTile16Rows, 0.0f);
    fill(zeros, max64(D, Dv) / 2, 0.0f);
  }
};

struct WorkItemBuffers {
  GradBuffers tile;
  Tile16Buffers tile16s;  // of tiles
  float* dk;              // [keys of a chunk, D padded], or [D padded, keys of a chunk]: KeySums
  float* dv;              // likewise of Dv
  int64_t ld_keys;        // where the keys are columns
  float* keys;            // [keys of a chunk, D padded]; kOwnRows

  template <class Variant>
  static WorkItemBuffers carve(Arena& arena, int64_t D, int64_t Dv, int64_t kv_chunk) {
    WorkItemBuffers b{};
    b.tile = GradBuffers::carve<Variant>(arena, D, Dv);
    if constexpr (kRowsOnly<Variant>) b.tile16s = Tile16Buffers::carve(arena, D, Dv);
    b.ld_keys = padded_row(kv_chunk);
    const int64_t keys = kRowsOnly<Variant> ? b.ld_keys : kv_chunk;
    b.dk = arena.take<float>(keys * padded_row(D));
    b.dv = arena.take<float>(keys * padded_row(Dv));
    b.keys = kOwnRows<Variant> ? arena.take<float>(round_up(kv_chunk, kTileKeys) * padded_row(D))
                               : nullptr;
    return b;
  }

  template <class Variant>
  KeySums<Variant> key_sums(float* data, int64_t dim) const {
    return {data, kRowsOnly<Variant> ? ld_keys : padded_row(dim)};
  }
  template <class Variant>
  void clear(float* data, int64_t dim, int64_t keys) const {
    fill(data, (kRowsOnly<Variant> ? ld_keys : keys) * padded_row(dim), 0.0f);
  }
};

// Where dq of the 16-row tile of query i and head g of its key head is accumulated.
inline float* dq_tile16(const AttentionGradPlan& plan, const GradPair& pair, int64_t i, int64_t g) {
  constexpr int64_t n = kGradTile16;
  if (plan.tile16s == GradTile16::kHeads) return pair.dq + pair.dq_row(i) + g / n * n * plan.D;
  return pair.dq + pair.dq_row(i / n * n) + g * n * plan.D;
}

// dq of a tile's rows, whose query(r) and head(r) c tells, goes to the accumulators.
template <class Rows>
inline void add_tile_dq(const AttentionGradPlan& plan, const GradPair& pair, const Rows& c,
                        const float* dq) {
  const int64_t ld = padded_row(plan.D);
  each_row(c, [&](int64_t r, int64_t i, int64_t head) {
    const int64_t g = head - pair.kv_head * plan.G;
    if (plan.uses_tile16()) {
      const int64_t lane = (plan.tile16s == GradTile16::kHeads ? g : i) % kGradTile16;
      float* column = dq_tile16(plan, pair, i, g) + lane;
      for (int64_t d = 0; d < plan.D; ++d) column[d * kGradTile16] += dq[r * ld + d];
      return;
    }
    add_scaled(pair.dq + pair.dq_row(i) + g * pair.dq_strides.head, dq + r * ld, plan.D,
               plan.scale);
  });
}

// Whether delta and statistics of a row are prepared by the one work item that has it, beside
// reading its dO: rows of a tile are then next to each other in them.
inline bool work_items_prepare(const AttentionGradPlan& plan, const GradPair& pair) {
  return pair.whole() && plan.tile16s == GradTile16::kHeads;
}

// Queues the rows of the next tile to be prefetched during the steps of this one.
template <class Rows>
inline void prefetch_grad_rows(const AttentionGradPlan& plan, const GradPair& pair, const Rows& c,
                               PrefetchQueue& prefetch) {
  each_row(c, [&](int64_t, int64_t i, int64_t head) {
    const int64_t g = head - pair.kv_head * plan.G;
    prefetch.add(plan.dtype, plan.query, c.seg.q + i * plan.q.row + head * plan.q.head, plan.D);
    prefetch.add(plan.dtype, plan.dy, c.seg.o + i * plan.o.row + head * plan.o.head, plan.Dv);
    if (work_items_prepare(plan, pair))
      prefetch.add(plan.dtype, plan.out, c.seg.o + i * plan.o.row + head * plan.o.head, plan.Dv);
    if (pair.whole()) return;
    if (plan.uses_tile16()) {
      const int64_t row = (plan.tile16s == GradTile16::kHeads ? g : i) % kGradTile16;
      prefetch.add(dq_tile16(plan, pair, i, g) + row * plan.D, plan.D);
      return;
    }
    prefetch.add(pair.dq + pair.dq_row(i) + g * pair.dq_strides.head, plan.D);
  });
}

// The sums of `count` keys, `dim` of each, scaled, go to rows dst of the accumulators.
template <class Variant>
inline void add_key_sums(KeySums<Variant> sums, int64_t count, int64_t dim, float scale, float* dst,
                         int64_t row) {
  if constexpr (kRowsOnly<Variant>) {
    alignas(64) float square[W * W];
    for (int64_t j = 0; j < count; j += W) {
      for (int64_t d = 0; d < dim; d += W) {
        Variant::transpose(sums.data + d * sums.ld + j, sums.ld, square, W);
        for (int64_t n = 0; n < min64(W, count - j); ++n)
          add_scaled(dst + (j + n) * row + d, square + n * W, min64(W, dim - d), scale);
      }
    }
    return;
  }
  for (int64_t j = 0; j < count; ++j) add_scaled(dst + j * row, sums.key(j).data, dim, scale);
}

// The work item's sums for keys [j0, j0 + count) go to the accumulators.
template <class Variant>
inline void add_work_item_keys(const AttentionGradPlan& plan, const GradPair& pair, int64_t j0,
                               int64_t count, const WorkItemBuffers& b) {
  add_key_sums(b.key_sums<Variant>(b.dk, plan.D), count, plan.D,
               plan.uses_tile16() ? 1.0f : plan.scale, pair.dk + j0 * pair.dk_row, pair.dk_row);
  add_key_sums(b.key_sums<Variant>(b.dv, plan.Dv), count, plan.Dv, 1.0f, pair.dv + j0 * pair.dv_row,
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
template <class Variant>
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
      delta[n] = row_dot<Variant>(plan, at, b.dy, b.tmp);
      continue;
    }
    pack_row<Variant>(plan.dtype, plan.dy, at, plan.Dv, b.dy + n * ld);
    pack_row<Variant>(plan.dtype, plan.out, at, plan.Dv, out + n * ld);
  }
  if (count == kDots) Variant::dots_in_order(b.dy, out, ld, words<Variant>(plan.Dv), delta);
  add_sum_grads(plan, pair, first, past);
}

// Specialised by the gradient on tiles in amx_grad.h.

// How often the step of so many rows calls PrefetchQueue::step().
template <class Variant>
inline int64_t tile16_steps(const AttentionGradPlan& plan, int64_t rows, int64_t keys);
// delta of rows [first, past), at most W, all of them at once. Dv is a multiple of 2 W.
template <class Variant>
inline void prepare_rows(const AttentionGradPlan& plan, const GradPair& pair, int64_t first,
                         int64_t past, GradBuffers& b);
// Scales and rounds dq of the 16-row tiles that begin with query i.
template <class Variant>
inline void write_dq_tile16s(const AttentionGradPlan& plan, const GradPair& pair, int64_t i);
// Rounds dk and dv to the outputs where they are in slots.
template <class Variant>
inline void write_slot_sums(const Member& member, const AttentionGradPlan& plan,
                            const GradPair& pair, WorkItemBuffers& b);

// The queries of a range, as the bounds of a loop.
struct QueryRange {
  int64_t first, past;

  QueryRange(const AttentionGradPlan& plan, const GradPair& pair, int64_t range)
      : first(min64(range * pair.range_queries(), plan.segments[pair.segment].q_len)),
        past(min64(first + pair.range_queries(), plan.segments[pair.segment].q_len)) {}
};

// The functions below are called by all members of a team.

template <class Variant, class Pair>
inline void prepare_accumulators(const Member& member, const AttentionGradPlan& plan,
                                 const Pair& pair, GradBuffers& b) {
  const Segment& seg = plan.segments[pair.segment];
  bool prepared = false;
  if constexpr (kRowsOnly<Variant>) {
    prepared = plan.Dv % (2 * W) == 0;
    const int64_t rows = prepared && !work_items_prepare(plan, pair) ? seg.q_len * plan.G : 0;
    member.static_for(ceil_div(rows, W), [&](int64_t n) {
      prepare_rows<Variant>(plan, pair, n * W, min64((n + 1) * W, rows), b);
    });
  }
  const int64_t rows = prepared ? 0 : seg.q_len * plan.G;
  member.static_for(ceil_div(rows, kDots), [&](int64_t n) {
    prepare_dots<Variant>(plan, pair, n * kDots, min64((n + 1) * kDots, rows), b);
  });
  member.static_for(pair.sum_rows(seg), [&](int64_t j) {
    fill(pair.dk + j * pair.dk_row, plan.D, 0.0f);
    fill(pair.dv + j * pair.dv_row, plan.Dv, 0.0f);
  });
  member.static_for(pair.first_block_rows(), [&](int64_t j) {
    fill(pair.first_block_dk + j * plan.D, plan.D, 0.0f);
    fill(pair.first_block_dv + j * plan.Dv, plan.Dv, 0.0f);
  });
}

// Zeros for dq of a range.
template <class Pair>
inline void clear_dq(const Member& member, const AttentionGradPlan& plan, const Pair& pair,
                     int64_t range) {
  if (pair.whole()) return;
  const QueryRange queries(plan, pair, range);
  const int64_t past = plan.uses_tile16() ? round_up(queries.past, kGradTile16) : queries.past;
  member.static_for(past - queries.first, [&](int64_t n) {
    float* dq = pair.dq + pair.dq_row(queries.first + n);
    for (int64_t g = 0; g < plan.G; ++g) fill(dq + g * pair.dq_strides.head, plan.D, 0.0f);
  });
}

// Rounds dq of a range to the output, for 16-bit types.
template <class Variant, class Pair>
inline void write_dq(const Member& member, const AttentionGradPlan& plan, const Pair& pair,
                     int64_t range) {
  if (plan.dtype == ElemType::kFloat32 || pair.whole()) return;
  const Segment& seg = plan.segments[pair.segment];
  const QueryRange queries(plan, pair, range);
  member.static_for(queries.past - queries.first, [&](int64_t n) {
    const int64_t i = queries.first + n;
    if constexpr (kRowsOnly<Variant>) {
      if (plan.uses_tile16()) return write_dq_tile16s<Variant>(plan, pair, i);
    }
    for (int64_t g = 0; g < plan.G; ++g) {
      from_float(plan.dtype, pair.dq + pair.dq_row(i) + g * pair.dq_strides.head, plan.D, plan.dq,
                 seg.q + i * plan.q.row + (pair.kv_head * plan.G + g) * plan.q.head);
    }
  });
}

// Writes dk and dv: rounds them, and reduces the partials.
template <class Variant, class Pair>
inline void write_key_sums(const Member& member, const AttentionGradPlan& plan, const Pair& pair,
                           [[maybe_unused]] WorkItemBuffers& b) {
  const bool there = plan.dtype == ElemType::kFloat32 && pair.num_partials == 1;
  if constexpr (kRowsOnly<Variant>) {
    if (pair.whole()) return write_slot_sums<Variant>(member, plan, pair, b);
  }
  const Segment& seg = plan.segments[pair.segment];
  member.static_for(there ? pair.first_block_keys : seg.kv_len, [&](int64_t j) {
    for (int64_t n = 1; n < pair.num_partials; ++n) {
      const int64_t at = n * seg.kv_len + j;
      add_scaled(pair.dk + j * plan.D, pair.dk + at * plan.D, plan.D, 1.0f);
      add_scaled(pair.dv + j * plan.Dv, pair.dv + at * plan.Dv, plan.Dv, 1.0f);
    }
    for (int64_t at = j; j < pair.first_block_keys && at < pair.first_block_rows();
         at += pair.first_block_keys) {
      add_scaled(pair.dk + j * pair.dk_row, pair.first_block_dk + at * plan.D, plan.D, 1.0f);
      add_scaled(pair.dv + j * pair.dv_row, pair.first_block_dv + at * plan.Dv, plan.Dv, 1.0f);
    }
    if (there) return;
    if (kRowsOnly<Variant> && plan.uses_tile16())
      scale_row(pair.dk + j * pair.dk_row, plan.D, plan.scale);
    from_float(plan.dtype, pair.dk + j * pair.dk_row, plan.D, plan.dk,
               seg.k + j * plan.k.row + pair.kv_head * plan.k.head);
    from_float(plan.dtype, pair.dv + j * pair.dv_row, plan.Dv, plan.dv,
               seg.v + j * plan.v.row + pair.kv_head * plan.v.head);
  });
}

// A wave in one region: all members call pack(member, buffers), and the accumulators are prepared;
// then come run(pair, query chunk, key chunk, buffers) for all work items whose chunks meet,
// and dq, range by range, and the other outputs.
template <class Variant, class WaveType, class Pack, class Meet, class Run>
void run_backward_wave(const AttentionGradPlan& plan, const WaveType& wave,
                       const GradScratch& scratch, int64_t max_kv_chunk, int threads,
                       const Pack& pack, const Meet& meet, const Run& run) {
  parallel_region(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    WorkItemBuffers buffers = WorkItemBuffers::carve<Variant>(arena, plan.D, plan.Dv, max_kv_chunk);
    Variant::begin();
    if (kScoresSplit<Variant> && plan.scores_as_bf16x3) Variant::Scores::begin();
    if (kRowsOnly<Variant> && plan.uses_tile16()) buffers.tile16s.begin(plan.D, plan.Dv);
    pack(member, buffers.tile);
    for (int64_t p = 0; p < wave.num_pairs; ++p)
      prepare_accumulators<Variant>(member, plan, wave.pairs[p], buffers.tile);
    int64_t ranges = 1;
    for (int64_t p = 0; p < wave.num_pairs; ++p) ranges = max64(ranges, wave.pairs[p].ranges());
    for (int64_t range = 0; range < ranges; ++range) {
      if (range > 0) member.barrier();
      for (int64_t p = 0; p < wave.num_pairs; ++p) clear_dq(member, plan, wave.pairs[p], range);
      if (member.number == 0) begin_work_items(wave, scratch);
      member.barrier();
      run_work_items(wave, scratch, range, meet, [&](auto pair, int64_t q_chunk, int64_t kv_chunk) {
        pair.for_partial(plan, kv_chunk);
        run(pair, q_chunk, kv_chunk, buffers);
      });
      member.barrier();
      for (int64_t p = 0; p < wave.num_pairs; ++p)
        write_dq<Variant>(member, plan, wave.pairs[p], range);
    }
    for (int64_t p = 0; p < wave.num_pairs; ++p)
      write_key_sums<Variant>(member, plan, wave.pairs[p], buffers);
    if (kScoresSplit<Variant> && plan.scores_as_bf16x3) Variant::Scores::end();
    Variant::end();
  });
}

int64_t grad_thread_size(ElemType dtype, int64_t D, int64_t Dv, int64_t max_kv_chunk) {
  return measured([&](Arena& arena) {
    if (dtype == ElemType::kBFloat16) {
      WorkItemBuffers::carve<VariantOfBFloat16>(arena, D, Dv, max_kv_chunk);
    } else {
      WorkItemBuffers::carve<GradVariantOfFloat>(arena, D, Dv, max_kv_chunk);
    }
  });
}

}  // namespace
}  // namespace nsa::cpu

#ifdef NSA_ISA_AMX
#include "cpu/engine/step/amx_grad.h"
#endif
