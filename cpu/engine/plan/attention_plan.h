// Inputs of the attention kernels: tensors, segments and score modifiers, all layouts reduced
// to offsets and strides; and how their work is divided. The division depends on shapes only, so
// results do not depend on the number of threads; only the division into waves, which bounds
// scratch, looks at it.
#pragma once

#include "cpu/engine/threads/scratch.h"
#include "cpu/types.h"

namespace nsa::cpu {

// Visible keys of query i: the interval [lo(i), hi(i)), both non-decreasing in i. Every mask that
// is not given as a tensor has this form.
struct RowRange {
  int64_t kv_len = 0;
  int64_t window_left = kFar;   // lo(i) = i - window_left
  int64_t window_right = kFar;  // hi(i) = i + window_right + 1
  int64_t prefix_len = 0;       // keys below this one are visible in any case (prefix)
  int64_t compress_block = 0;   // l; with compress_stride s > 0 key c ends at token c s + l - 1
  int64_t compress_stride = 0;
  int64_t position = 0;  // of query 0, for the compressed form

  static constexpr int64_t kFar = int64_t{1} << 48;

  int64_t lo(int64_t i) const { return min64(max64(i - window_left, 0), kv_len); }
  int64_t hi(int64_t i) const {
    int64_t end = max64(i + window_right + 1, prefix_len);
    if (compress_stride > 0) {
      int64_t last = position + i - compress_block + 1;  // c s <= last
      end = min64(end, last < 0 ? 0 : last / compress_stride + 1);
    }
    return min64(max64(end, 0), kv_len);
  }
};

struct RowStrides {  // in elements, between tokens and between heads
  int64_t row, head;
};

// One packed sequence (TND) or one batch entry.
struct Segment {
  int64_t index;                   // b
  int64_t first_query, first_key;  // rows, counted over all segments
  int64_t q, k, v, o;              // elements before row 0 of head 0
  int64_t stat;                    // floats before it, in softmax_max and softmax_sum
  int64_t q_len, kv_len;
  RowRange range;
  int64_t pse, mask, drop;  // offsets into the bias tensors; drop in bits
  RowStrides pse_strides;   // row stride 0: one row for all queries
  int64_t slope_shift;      // kv_start_idx - q_start_idx
};

// Rows whose dq is accumulated transposed, lanes of AMX tiles: a 16-row tile. They are as many
// heads of a query, or, of a group of another size, queries of a head.
constexpr int64_t kGradTile16 = 16;
enum class GradTile16 { kNone, kHeads, kQueries };

enum class Pse { kNone, kDense, kAlibi, kSlopes };

// Everything that changes a score or a probability besides the visible interval.
struct ScoreBias {
  Pse pse = Pse::kNone;
  const void* pse_data = nullptr;
  ElemType pse_elem = ElemType::kFloat32;
  int64_t pse_cols = 0;           // alibi: keys of the compressed tensor
  bool pse_before_scale = false;  // (q k + pse) scale instead of q k scale + pse
  bool slope_sqrt = false;
  const uint8_t* mask = nullptr;
  RowStrides mask_strides = {0, 0};
  const uint8_t* drop = nullptr;
  float inv_keep = 1.0f;

  bool changes_scores() const { return pse != Pse::kNone || mask != nullptr; }
};

struct AttentionPlan {
  const void* query;
  const void* key;
  const void* value;
  void* out;
  float* softmax_max;
  float* softmax_sum;
  ElemType dtype;
  int64_t N1, N2, G, D, Dv;
  RowStrides q, k, v, o, stat;
  const Segment* segments;
  int64_t num_segments;
  ScoreBias bias;
  const float* sink;  // [N1] or nullptr
  float scale;
};

// Whether the forward can take its numbers as bf16x3 where there are tiles for them: float32 or
// float16, which are both exact in three.
inline bool values_fit_bf16x3(const AttentionPlan& plan) {
  if (plan.dtype == ElemType::kBFloat16 || plan.D % 32 != 0) return false;
  if (plan.bias.changes_scores() || plan.bias.drop) return false;
  // The scale is multiplied by a small power of two.
  return plan.scale > 1e-15f && plan.scale < 1e15f;
}
// bf16x3 pays for any rows only if D, Dv >= 128 and segments average at least 64 rows and more than
// 256 keys: below that, packing costs more than AMX saves.
inline bool rows_fit_bf16x3(const AttentionPlan& plan) {
  int64_t rows = 0, keys = 0;
  for (int64_t b = 0; b < plan.num_segments; ++b) {
    rows += plan.segments[b].q_len * plan.G;
    keys += plan.segments[b].kv_len;
  }
  return plan.D >= 128 && plan.Dv >= 128 && rows >= 64 * plan.num_segments &&
         keys > 256 * plan.num_segments && values_fit_bf16x3(plan);
}
// bf16x3 for tiles of rows that are heads of a query.
inline bool heads_fit_bf16x3(const AttentionPlan& plan) {
  return plan.G % 16 == 0 && values_fit_bf16x3(plan);
}

struct AttentionGradPlan : AttentionPlan {  // out, softmax_max and softmax_sum are inputs
  const void* dy;                           // strides of out
  const float* sum_grad;                    // of softmax_sum, strides of it; nullptr: zeros
  void* dq;
  void* dk;
  void* dv;
  void* dpse;          // accumulated in place, zero at first; nullptr: not asked for
  ElemType dpse_elem;  // float where several rows add to one element
  float* dsink;        // [N1] or nullptr
  // In 16-row tiles dq is accumulated as [D, kGradTile16] for each, and neither dq nor dk is with
  // scale before they are written.
  GradTile16 tile16s;
  bool scores_as_bf16x3;  // as the forward of the call has them

  bool uses_tile16() const { return tile16s != GradTile16::kNone; }
};

constexpr int64_t kKvBlockKeys = 64;  // keys of a KV block
constexpr int64_t kTileKeys = 128;    // keys of one softmax step
constexpr int64_t kTileRows = 96;     // (query, head) rows of a step
// Most steps' rows of a tile of FlashAttentionScore.
constexpr int64_t kTileSteps = 4;

// Keys of a sweep, which all rows of a tile on AMX tiles pass in turn: they stay in the
// second-level cache. Tiles that see no more go one query after the other.
constexpr int64_t kSweepKeys = 8 * kTileKeys;

// Rows of a tile that the visible interval cuts are taken so many at a time, each time with their
// own ends: less work on masked scores along the diagonal. Several times so many whose ends are
// nearly the same, as those of many heads of a few queries, go together (past_cut).
constexpr int64_t kCutRows = 24;

// kCutRows rounded up to whole words, `align` at a time: dV and dK contract over rows.
constexpr int64_t cut_rows(WordForm form) { return round_up(kCutRows, form.per_word * form.align); }
static_assert(kTileRows % 32 == 0);

// The row after those from r0 on, `cut` rows at a time before `past`, whose visible intervals begin
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
  int64_t first_packed;       // of the KV blocks of its wave
};

// One kv head of one segment, with its keys and values packed for the tile matmul.
struct KvPair {
  int64_t segment, kv_head;
  int64_t first_kv_block;  // of the KV blocks of its wave
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
  int64_t num_kv_blocks;
  const RowTile* tiles;
  int64_t num_tiles;
};

// Scratch of one call of a forward kernel.
struct ForwardScratch {
  float* keys;        // [KV blocks, words(D), lanes]; lanes: 64, of selected keys BlockShape::lanes
  float* values;      // [KV blocks, words(lanes), padded Dv]
  bool* finite;       // [KV blocks] the values are all finite
  int64_t tile_rows;  // of a tile, at most
  bool as_bf16x3;     // packed so, where there are tiles for it; not NsaSelectedAttention
  char* threads;      // thread_size bytes for each thread
  int64_t thread_size;
};

}  // namespace nsa::cpu
