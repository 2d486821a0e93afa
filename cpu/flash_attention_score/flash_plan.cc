#include "cpu/flash_attention_score/flash_plan.h"

#include "cpu/engine/plan/make_plan.h"

namespace nsa::cpu {
namespace {

// The position at which batch element b starts, of one for each or one for all.
int64_t position_of(const int64_t* list, int64_t count, int64_t b) {
  return list == nullptr ? 0 : list[count == 1 ? 0 : b];
}

// pre_tokens and next_tokens may be any int64; beyond the largest sequence they all mean the same.
int64_t bounded(int64_t tokens) { return max64(-RowRange::kFar, min64(tokens, RowRange::kFar)); }

// The batch whose mask is a band: the last (mode 7) or first (mode 8) with queries.
int64_t band_batch(const FlashAttentionScoreParams& p) {
  int64_t found = -1;
  for (int64_t b = 0; b < p.B; ++b) {
    if (p.seq_q[b] == start_of(p.seq_q, b)) continue;
    found = b;
    if (p.sparse_mode == 8) break;
  }
  return found;
}

// Gives the strides of a pse tensor of four dimensions; a flat one has strides of each segment.
RowStrides set_pse(const FlashAttentionScoreParams& p, AttentionPlan& plan) {
  ScoreBias& bias = plan.bias;
  if (p.real_shift == nullptr) return {0, 0};
  bias.pse_data = p.real_shift;
  if (p.pse_type >= 2) {
    bias.pse = Pse::kSlopes;
    bias.slope_sqrt = p.pse_type == 3;
    return {0, 1};
  }
  bias.pse_elem = p.dtype;
  bias.pse_before_scale = p.pse_type == 1;
  bias.pse = Pse::kDense;
  if (p.pse_rank != 4) return {0, 0};
  int64_t rows = p.pse_shape[2], cols = p.pse_shape[3];
  bool alibi = rows == 1024 && (p.input_layout == Layout::kTND || p.S1 != rows);
  bias.pse = alibi ? Pse::kAlibi : Pse::kDense;
  bias.pse_cols = cols;
  return {rows == 1 ? 0 : cols, rows * cols};
}

AttentionTensors tensors_of(const FlashAttentionScoreParams& p) {
  return {p.query,        p.key,         p.value, p.attention_out,
          p.softmax_max,  p.softmax_sum, p.seq_q, p.seq_kv,
          p.input_layout, p.dtype,       p.B,     p.N1,
          p.N2,           p.S1,          p.S2,    p.D,
          p.Dv,           p.scalar_value};
}

// Where the bias of a segment starts. `scores`: sum of S1 * S2 of the segments before it; `k0`: its
// first key; `by_row`: a flat tensor has a row for every query.
void set_segment_pse(const FlashAttentionScoreParams& p, const ScoreBias& bias, RowStrides strides,
                     bool by_row, int64_t scores, int64_t k0, Segment& seg) {
  seg.pse_strides = strides;
  if (bias.pse == Pse::kSlopes) {
    seg.slope_shift = position_of(p.kv_start, p.kv_starts, seg.index) -
                      position_of(p.q_start, p.q_starts, seg.index);
    seg.pse = p.pse_rank == 2 ? seg.index * p.N1 : 0;
  } else if (p.pse_rank == 4) {
    seg.pse = p.pse_shape[0] == 1 ? 0 : seg.index * p.N1 * p.pse_shape[2] * p.pse_shape[3];
  } else {
    seg.pse = p.N1 * (by_row ? scores : k0);
    seg.pse_strides =
        by_row ? RowStrides{seg.kv_len, seg.q_len * seg.kv_len} : RowStrides{0, seg.kv_len};
  }
}

// The visible interval of segment b, without its sparse_mode 7/8 exception.
RowRange make_range(const FlashAttentionScoreParams& p, int64_t sparse_mode, int64_t b,
                    int64_t q_len, int64_t kv_len) {
  RowRange range;
  range.kv_len = kv_len;
  range.compress_block = p.compress_block_size;
  range.compress_stride = p.compress_stride;
  range.position = p.q_offset ? p.q_offset[b] : 0;
  const int64_t corner = kv_len - q_len;  // aligns the diagonal to the bottom right
  switch (sparse_mode) {
    case 0:
      range.window_left = bounded(p.pre_tokens);
      range.window_right = bounded(p.next_tokens);
      break;
    case 2:
      range.window_right = 0;
      break;
    case 3:
      range.window_right = corner;
      break;
    case 4:
      range.window_left = bounded(p.pre_tokens) - corner;
      range.window_right = bounded(p.next_tokens) + corner;
      break;
    case 5:
    case 6:
      range.window_right = corner;
      range.prefix_len = p.prefix[b];
      break;
    default:
      break;
  }
  return range;
}

}  // namespace

std::vector<Segment> make_plan(const FlashAttentionScoreParams& p, AttentionPlan& plan) {
  const bool packed = p.input_layout == Layout::kTND;
  std::vector<Segment> segments = make_plan(tensors_of(p), plan);
  plan.sink = p.sink;
  const RowStrides pse_strides = set_pse(p, plan);
  if (p.attn_mask) {
    plan.bias.mask = p.attn_mask;
    int64_t area = p.mask_shape[2] * p.mask_shape[3];
    plan.bias.mask_strides = {p.mask_shape[3], p.mask_shape[1] == 1 ? 0 : area};
  }
  plan.bias.drop = p.drop_mask;
  plan.bias.inv_keep = 1.0f / static_cast<float>(p.keep_prob);

  const bool flat_pse = plan.bias.pse == Pse::kDense && p.pse_rank != 4;
  int64_t scores = 0;  // sum of S1_b * S2_b so far
  int64_t area = 0;
  for (int64_t b = 0; packed && b < p.B; ++b) {
    int64_t q_len = p.seq_q[b] - start_of(p.seq_q, b), kv_len = p.seq_kv[b] - start_of(p.seq_kv, b);
    area += q_len * kv_len;
  }
  const bool pse_by_row = flat_pse && p.pse_shape[3] == p.N1 * area;
  // The compressed form takes masks of any larger size, indexed within the segment.
  const bool whole_mask = packed && p.attn_mask && p.compress_block_size == 0 &&
                          p.mask_shape[2] == p.S1 && p.mask_shape[3] == p.S2;
  const int64_t band = p.sparse_mode >= 7 ? band_batch(p) : -1;
  for (int64_t b = 0; b < p.B; ++b) {
    Segment& seg = segments[b];
    const int64_t q0 = packed ? start_of(p.seq_q, b) : 0, k0 = packed ? start_of(p.seq_kv, b) : 0;
    int64_t mode = p.sparse_mode;
    if (mode >= 7) mode = b == band ? 4 : (mode == 7 ? 3 : 2);
    seg.range = make_range(p, mode, b, seg.q_len, seg.kv_len);
    // The compressed alibi form has no entries above the diagonal, whatever a mask tensor says.
    if (plan.bias.pse == Pse::kAlibi) seg.range.window_right = min64(seg.range.window_right, 0);
    if (plan.bias.pse != Pse::kNone)
      set_segment_pse(p, plan.bias, pse_strides, pse_by_row, scores, k0, seg);
    if (p.attn_mask && whole_mask) seg.mask = q0 * p.mask_shape[3] + k0;
    if (p.attn_mask && p.mask_shape[0] > 1)
      seg.mask = b * p.mask_shape[1] * p.mask_shape[2] * p.mask_shape[3];
    seg.drop = p.N1 * scores;
    scores += seg.q_len * seg.kv_len;
  }
  return segments;
}

}  // namespace nsa::cpu
