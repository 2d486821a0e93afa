// What the gradient on AMX tiles keeps in scratch. Plain data, which every unit can name; only one
// with tiles has it.
#pragma once

#include "cpu/engine/plan/grad_schedule.h"
#include "cpu/engine/step/grad_tile.h"

namespace nsa::cpu {
namespace {

// Rows whose dQ is summed transposed: [D, kGroupRows].
constexpr int64_t kGroupRows = kAmxTile;
static_assert(kGroupRows == kGradGroup);
// Lanes of a product, those of two groups, and keys of it.
constexpr int64_t kPairLanes = 2 * kGroupRows;
constexpr int64_t kBlockRows = 2 * kAmxTile;
// Most pairs of groups of a tile.
constexpr int64_t kTilePairs = kTileRows / kPairLanes;
static_assert(kTileKeys % kBlockRows == 0);

// Interleaving two rows of keys puts lanes 0 to 3 of every 8 first. So fours of the two groups take
// turns, and after it their lanes stand together.
constexpr int64_t group_lane(int64_t turn, int64_t row) { return row / 4 * 8 + turn * 4 + row % 4; }

// Of a pair's lanes what P and dS are computed with.
struct PairLanes {
  float max[kPairLanes];
  float inv[kPairLanes];
  float delta[kPairLanes];
  // The visible keys of the segment are [lo, hi).
  float lo[kPairLanes];
  float hi[kPairLanes];
};

// A packed block of keys.
struct GroupKeys {
  const float* k;   // [lanes, words(D)], ld_k apart
  const float* v;   // [lanes, words(Dv)], ld_v apart
  const float* kt;  // [D, lanes / 2] words of two keys, ld_kt apart
  int64_t lanes, ld_k, ld_v, ld_kt;
  int64_t j0;  // the first key's place in the segment
};

// A tile's rows in the forms that its products read.
struct GroupTile {
  int64_t groups;    // of kGroupRows rows
  float* q_t;        // [kTilePairs, words(D), kPairLanes]
  float* dy_t;       // [kTilePairs, words(Dv), kPairLanes]
  float* q_pairs;    // [kTileRows / 2, D padded] words of two rows
  float* dy_pairs;   // [kTileRows / 2, Dv padded]
  PairLanes* lanes;  // [kTilePairs]
  float* top;        // [W] the largest magnitudes of both, as bf16
  bool usual;        // all rows have a maximum that is moderate

  int64_t pairs() const { return ceil_div(groups, 2); }

  static GroupTile carve(Arena& arena, int64_t D, int64_t Dv) {
    GroupTile t{};
    t.q_t = arena.take<float>(kTilePairs * D / 2 * kPairLanes);
    t.dy_t = arena.take<float>(kTilePairs * Dv / 2 * kPairLanes);
    t.q_pairs = arena.take<float>(kTileRows / 2 * padded_row(D));
    t.dy_pairs = arena.take<float>(kTileRows / 2 * padded_row(Dv));
    t.lanes = arena.take<PairLanes>(kTilePairs);
    t.top = arena.take<float>(W);
    return t;
  }
};

struct GroupBuffers {
  GroupTile tiles[2];  // one in work, one that is loaded
  float* p;            // [kTileKeys, kRowWords] words of two rows
  float* ds;           // likewise
  float* ds_keys;      // [kTileKeys / 2, kLanes] words of two keys
  float* scores;       // [kTilePairs, kTileKeys, kPairLanes] raw S^T
  float* products;     // [kTilePairs, kTileKeys, kPairLanes] dP^T
  float* dq;           // [kTileRows / kGroupRows, D, kGroupRows] of a tile that meets all its keys
  float* keys_t;       // [words(D), kTileKeys] keys of a tile that takes the general way
  float* values_t;     // [words(Dv), kTileKeys] likewise
  float* keys;         // [words(kTileKeys), D padded] likewise
  float* nobody;       // [D, kGroupRows] dQ of a group that is not there
  float* zeros;        // a row of it

  static constexpr int64_t kLanes = padded_row(kTileRows);

  static GroupBuffers carve(Arena& arena, int64_t D, int64_t Dv) {
    GroupBuffers b;
    for (GroupTile& tile : b.tiles) tile = GroupTile::carve(arena, D, Dv);
    b.p = arena.take<float>(kTileKeys * kRowWords);
    b.ds = arena.take<float>(kTileKeys * kRowWords);
    b.ds_keys = arena.take<float>(kTileKeys / 2 * kLanes);
    b.scores = arena.take<float>(kTileKeys * kTileRows);
    b.products = arena.take<float>(kTileKeys * kTileRows);
    b.dq = arena.take<float>(kTileRows * D);
    b.keys_t = arena.take<float>(kTileKeys * D / 2);
    b.values_t = arena.take<float>(kTileKeys * Dv / 2);
    b.keys = arena.take<float>(kTileKeys / 2 * padded_row(D));
    b.nobody = arena.take<float>(D * kGroupRows);
    b.zeros = arena.take<float>(max64(D, Dv) / 2);
    return b;
  }
  // Before the units of a thread.
  void begin(int64_t D, int64_t Dv) const {
    fill(nobody, D * kGroupRows, 0.0f);
    fill(zeros, max64(D, Dv) / 2, 0.0f);
  }
};

}  // namespace
}  // namespace nsa::cpu
