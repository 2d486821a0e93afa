// A wave of a forward call: one region of a team, first packing, then tiles.
#pragma once

#include "cpu/engine/step/forward_tile.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {
namespace {

// Packs keys and their values as columns and rows of a block of `lanes` keys. Gives whether the
// values are numbers that the steps take; in pieces, the keys as well.
template <class Path>
inline bool pack_keys(const AttentionPlan& plan, KeyRows from, int64_t lanes, float* keys,
                      float* values, float* tmp) {
  if constexpr (Path::kForm.pieces > 1) {
    return Path::pack_keys(plan, from, keys, values, tmp);
  } else {
    pack_transposed<Path>(keys_of(plan, from), plan.D, lanes, keys, tmp);
    pack_rows<Path>(values_of(plan, from), plan.Dv, lanes, values);
    return packed_finite<Path>(values, words<Path>(lanes) * padded_row(plan.Dv),
                               Path::kLargeExponent);
  }
}

// Keys [j0, j0 + n) of a head of a segment.
inline KeyRows key_rows(const AttentionPlan& plan, const Segment& seg, int64_t kv_head, int64_t j0,
                        int64_t n) {
  return {seg.k + kv_head * plan.k.head + j0 * plan.k.row,
          seg.v + kv_head * plan.v.head + j0 * plan.v.row, n};
}

// The keys of block number `block` of a pair.
template <class Path>
inline bool pack_block(const AttentionPlan& plan, const Segment& seg, int64_t kv_head,
                       int64_t block, float* keys, float* values, float* tmp) {
  const int64_t j0 = block * kBlockKeys, n = min64(kBlockKeys, seg.kv_len - j0);
  return pack_keys<Path>(plan, key_rows(plan, seg, kv_head, j0, n), kBlockKeys, keys, values, tmp);
}

// Packs keys and values of all pairs of a wave; called by all members, which meet later.
template <class Path>
inline void pack_pairs(const Member& member, const AttentionPlan& plan, const Wave& wave,
                       const ForwardScratch& scratch, float* tmp) {
  const int64_t key_size = words<Path>(plan.D) * kBlockKeys;
  const int64_t value_size = words<Path>(kBlockKeys) * padded_row(plan.Dv);
  for (int64_t p = 0; p < wave.num_pairs; ++p) {
    const KvPair& pair = wave.pairs[p];
    const Segment& seg = plan.segments[pair.segment];
    member.share(ceil_div(seg.kv_len, kBlockKeys), [&](int64_t block) {
      const int64_t at = pair.first_block + block;
      scratch.finite[at] =
          pack_block<Path>(plan, seg, pair.kv_head, block, scratch.keys + at * key_size,
                           scratch.values + at * value_size, tmp);
    });
  }
}

// All members call pack(member, buffers) and meet; then tile(n, buffers) for the tiles, one each.
// carve(arena) gives a thread's buffers.
template <class Path, class Carve, class Pack, class Tile>
void run_forward(const ForwardScratch& scratch, int64_t tiles, int threads, const Carve& carve,
                 const Pack& pack, const Tile& tile) {
  in_team(threads, [&](const Member& member) {
    Arena arena{scratch.threads + member.number * scratch.thread_size};
    Path::begin();
    auto buffers = carve(arena);
    pack(member, buffers);
    member.meet();
    member.take(tiles, [&](int64_t n) { tile(n, buffers); });
    Path::end();
  });
}

// tile(context, packed, buffers) for all tiles of a wave that read packed blocks of keys.
template <class Path, class Carve, class Tile>
void run_forward_wave(const AttentionPlan& plan, const Wave& wave, const ForwardScratch& scratch,
                      int threads, const Carve& carve, const Tile& tile) {
  const int64_t key_size = words<Path>(plan.D) * kBlockKeys;
  const int64_t value_size = words<Path>(kBlockKeys) * padded_row(plan.Dv);
  run_forward<Path>(
      scratch, wave.num_tiles, threads, carve,
      [&](const Member& member, auto& buffers) {
        pack_pairs<Path>(member, plan, wave, scratch, buffers.tmp);
      },
      [&](int64_t n, auto& buffers) {
        const RowTile& rows = wave.tiles[n];
        const KvPair& pair = wave.pairs[rows.pair];
        const TileContext context{plan, plan.segments[pair.segment], rows, pair.kv_head * plan.G};
        const PackedPair packed{scratch.keys + pair.first_block * key_size,
                                scratch.values + pair.first_block * value_size,
                                scratch.finite + pair.first_block};
        tile(context, packed, buffers);
      });
}

// A tile of rows over all its keys, and what it needs of a thread's scratch.
template <class Path>
struct ForwardTile {
  using Buffers = TileBuffers;
  static void run(const TileContext& c, const PackedPair& packed, Buffers& b) {
    forward_tile<Path>(c, packed, b);
  }
};

// Rows of a tile that the products of a step read and write where they are, and that need no copy
// then: not in this way.
template <class Path>
struct RowsInPlace {
  template <class Rows, class Out>
  RowsInPlace(const AttentionPlan&, const Rows&, const Out&) {}
  static constexpr bool there() { return false; }
  void scores(const float*, int64_t, float*) const {}
  void add_values(const float*, int64_t, const float*, const float*) const {}
};

}  // namespace
}  // namespace nsa::cpu
