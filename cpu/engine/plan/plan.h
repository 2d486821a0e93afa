// What the attention kernels are given: tensors, segments and score modifiers, all layouts reduced
// to offsets and strides.
#pragma once

#include "cpu/types.h"

namespace nsa::cpu {

// Visible keys of query i: the interval [lo(i), hi(i)), both non-decreasing in i. Every mask that
// is not given as a tensor has this form.
struct RowRange {
  int64_t kv_len = 0;
  int64_t back = kFar;         // lo(i) = i - back
  int64_t ahead = kFar;        // hi(i) = i + ahead + 1
  int64_t always = 0;          // keys below this one are visible in any case (prefix)
  int64_t compress_block = 0;  // l; with compress_stride s > 0 key c ends at token c s + l - 1
  int64_t compress_stride = 0;
  int64_t position = 0;  // of query 0, for the compressed form

  static constexpr int64_t kFar = int64_t{1} << 48;

  int64_t lo(int64_t i) const { return min64(max64(i - back, 0), kv_len); }
  int64_t hi(int64_t i) const {
    int64_t end = max64(i + ahead + 1, always);
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

// One packed sequence (TND) or one batch entry. Offsets are in elements, of row 0 and head 0.
struct Segment {
  int64_t index;  // b
  int64_t q, k, v, o;
  int64_t stat;  // in floats, softmax_max and softmax_sum
  int64_t q_len, kv_len;
  RowRange range;
  int64_t pse, mask, drop;  // offsets into the bias tensors; drop in bits
  RowStrides pse_strides;   // row stride 0: one row for all queries
  int64_t slope_shift;      // kv_start_idx - q_start_idx
};

// Rows whose dq is accumulated transposed, lanes of AMX tiles: as many heads of a query, or, of a
// group that is no multiple of that, queries of a head.
constexpr int64_t kGradGroup = 16;
enum class GradGroups { kNone, kHeads, kQueries };

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

// Whether the forward can take its numbers in pieces where there are tiles for them: float32 or
// float16, which are both exact in three.
inline bool numbers_fit_pieces(const AttentionPlan& plan) {
  if (plan.dtype == ElemType::kBFloat16 || plan.D % 32 != 0) return false;
  if (plan.bias.changes_scores() || plan.bias.drop) return false;
  // The scale is multiplied by a small power of two.
  return plan.scale > 1e-15f && plan.scale < 1e15f;
}
// The same of whatever rows, where segments have some and many keys on the mean, and rows are long:
// otherwise splitting, packing and adding up what tiles give takes longer than tiles spare.
inline bool rows_fit_pieces(const AttentionPlan& plan) {
  int64_t rows = 0, keys = 0;
  for (int64_t b = 0; b < plan.num_segments; ++b) {
    rows += plan.segments[b].q_len * plan.G;
    keys += plan.segments[b].kv_len;
  }
  return plan.D >= 128 && plan.Dv >= 128 && rows >= 64 * plan.num_segments &&
         keys > 256 * plan.num_segments && numbers_fit_pieces(plan);
}
// The same where tiles of rows are heads of a query.
inline bool heads_fit_pieces(const AttentionPlan& plan) {
  return plan.G % 16 == 0 && numbers_fit_pieces(plan);
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
  // In groups dq is accumulated as [D, kGradGroup] for each, and neither dq nor dk is with scale
  // before they are written.
  GradGroups groups;
  bool scores_in_pieces;  // as the forward of the call has them

  bool in_groups() const { return groups != GradGroups::kNone; }
};

}  // namespace nsa::cpu
