// How attention work is divided. The division depends on shapes only, so results do not depend on
// the number of threads; only the grouping into waves, which bounds scratch, looks at it.
#pragma once

#include "cpu/engine/plan/plan.h"
#include "cpu/engine/threads/scratch.h"

namespace nsa::cpu {

constexpr int64_t kBlockKeys = 64;  // keys of one packed block
constexpr int64_t kTileKeys = 128;  // keys of one softmax step
constexpr int64_t kTileRows = 96;   // (query, head) rows of a step
// Most steps' rows of a tile of FlashAttentionScore.
constexpr int64_t kTileSteps = 4;

// Keys of a sweep, which all rows of a tile on AMX tiles pass in turn: they stay in the
// second-level cache. Tiles that see no more go one query after the other.
constexpr int64_t kSweepKeys = 8 * kTileKeys;

// Rows of a tile that the visible interval cuts are taken in groups of this size, each with its own
// ends: less work on masked pairs along the diagonal. Several groups whose ends are nearly the
// same, as those of many heads of a few queries, go together (past_cut).
constexpr int64_t kCutRows = 24;

// The same for a matmul that takes its contraction in words, `align` of them at a time: dV and dK
// contract over rows.
constexpr int64_t cut_rows(WordForm form) { return round_up(kCutRows, form.per_word * form.align); }
static_assert(kTileRows % 32 == 0);

// The row after those from r0 on, groups of `cut` rows before `past`, whose visible intervals begin
// and end within a step of `near` keys. Rows: query(r) of a row.
template <class Rows>
int64_t past_cut(const RowRange& range, const Rows& rows, int64_t r0, int64_t past, int64_t cut,
                 int64_t near) {
  const int64_t lo = range.lo(rows.query(r0)), hi = range.hi(rows.query(r0));
  int64_t r1 = min64(r0 + cut, past);
  while (r1 < past) {
    const int64_t next = min64(r1 + cut, past), last = rows.query(next - 1);
    if (range.lo(last) - lo > near || range.hi(last) - hi > near) break;
    r1 = next;
  }
  return r1;
}

// Floats of a row in a tile that a matmul reads along its columns: whole vectors, and an odd number
// of cache lines, because rows a power of two apart would compete for a few sets of the first-level
// cache.
constexpr int64_t padded_row(int64_t n) { return 16 * (ceil_div(n, 16) | 1); }
constexpr int64_t kScoreRow = padded_row(kTileKeys);

// One kv head of one segment, whose queries come in chunks, and where its keys are packed.
struct ChunkedPair {
  int64_t segment, kv_head;
  int64_t q_chunk, q_chunks;  // queries of a chunk, and how many there are
  int64_t first_packed;       // of the packed blocks, or their parts, of its wave
};

// One kv head of one segment, with its keys and values packed for the tile matmul.
struct KvPair {
  int64_t segment, kv_head;
  int64_t first_block;  // of the packed blocks of its wave
};

// Rows r of a tile: query i0 + r / heads, head g0 + r % heads of the group.
struct RowTile {
  int64_t pair;
  int64_t i0, queries;
  int64_t g0, heads;
  int64_t rows() const { return queries * heads; }
};

struct Wave {
  const KvPair* pairs;
  int64_t num_pairs;
  int64_t num_blocks;
  const RowTile* tiles;
  int64_t num_tiles;
};

// What one call of a forward kernel runs on, besides the plan.
struct ForwardScratch {
  float* keys;        // [blocks, words(D), 64]
  float* values;      // [blocks, words(64), padded Dv]
  bool* finite;       // [blocks] the values hold numbers only
  int64_t tile_rows;  // of a tile, at most
  bool in_pieces;     // packed so, where there are tiles for it; not NsaSelectedAttention
  char* threads;      // one part per thread
  int64_t thread_size;
};

}  // namespace nsa::cpu
