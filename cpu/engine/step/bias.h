// Position bias, masks and dropout of one row of scores.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/step/online_softmax.h"

namespace nsa::cpu {
namespace {

// Keys [k0, k0 + n) of a row, clipped to the visible interval; relative to k0.
struct Span {
  int64_t lo, hi;
};

inline Span visible_span(const RowRange& range, int64_t i, int64_t k0, int64_t n) {
  int64_t lo = max64(range.lo(i) - k0, 0), hi = min64(range.hi(i) - k0, n);
  return hi > lo ? Span{lo, hi} : Span{0, 0};
}

// -inf in place of the scores of query i with those of keys [k0, k0 + n) that it does not see, and
// in lanes past them.
inline void hide_unseen(const RowRange& range, int64_t i, int64_t k0, int64_t n, int64_t lanes,
                        float* row) {
  const Span seen = visible_span(range, i, k0, n);
  fill(row, seen.lo, -kInfinity);
  fill(row + seen.hi, lanes - seen.hi, -kInfinity);
}

// The scores of query i and a head with keys [k0, k0 + n).
struct ScoreRow {
  const Segment& seg;
  int64_t head, i, k0, n;

  // The visible keys, relative to k0.
  Span visible() const { return visible_span(seg.range, i, k0, n); }
};

constexpr int64_t kAlibiRows = 1024;

// Element of the pse tensor that belongs to (segment, head, query i, key 0).
inline int64_t pse_offset(const ScoreBias& bias, const Segment& seg, int64_t head, int64_t i) {
  int64_t at = seg.pse + head * seg.pse_strides.head;
  if (bias.pse != Pse::kAlibi) return at + i * seg.pse_strides.row;
  // The last 1024 rows are stored; earlier ones repeat them shifted along the diagonal.
  int64_t skipped = seg.q_len - kAlibiRows;
  int64_t column = bias.pse_cols - seg.kv_len;
  if (i >= skipped) return at + (i - skipped) * seg.pse_strides.row + column;
  int64_t row = i % kAlibiRows;
  return at + row * seg.pse_strides.row + column + skipped + row - i;
}

// bias[0..hi - lo) for keys k0 + lo .. k0 + hi.
inline void pse_row(const ScoreBias& bias, const ScoreRow& row, Span span, float* out) {
  const auto& [seg, head, i, k0, n] = row;
  if (bias.pse == Pse::kSlopes) {
    float slope = static_cast<const float*>(bias.pse_data)[seg.pse + head];
    for (int64_t j = span.lo; j < span.hi; ++j) {
      int64_t d = k0 + j - i + seg.slope_shift;
      float distance = static_cast<float>(d < 0 ? -d : d);
      out[j - span.lo] = -slope * (bias.slope_sqrt ? __builtin_sqrtf(distance) : distance);
    }
    return;
  }
  int64_t at = pse_offset(bias, seg, head, i) + k0 + span.lo;
  to_float(bias.pse_elem, bias.pse_data, at, span.hi - span.lo, out);
}

// s[0..n): raw products become scores with scale and bias applied, -inf where it is masked. tmp
// holds n floats.
inline void bias_row(const ScoreBias& bias, const ScoreRow& row, float scale, float* s,
                     float* tmp) {
  const auto& [seg, head, i, k0, n] = row;
  const Span span = row.visible();
  fill(s, span.lo, -kInfinity);
  fill(s + span.hi, n - span.hi, -kInfinity);
  if (bias.pse == Pse::kNone) {
    for (int64_t j = span.lo; j < span.hi; ++j) s[j] *= scale;
  } else {
    pse_row(bias, row, span, tmp);
    // A bias of -inf masks, whatever the score and the sign of the scale.
    if (bias.pse_before_scale) {
      for (int64_t j = span.lo; j < span.hi; ++j) {
        const float bias_j = tmp[j - span.lo];
        s[j] = bias_j == -kInfinity ? -kInfinity : (s[j] + bias_j) * scale;
      }
    } else {
      for (int64_t j = span.lo; j < span.hi; ++j) {
        const float bias_j = tmp[j - span.lo];
        s[j] = bias_j == -kInfinity ? -kInfinity : s[j] * scale + bias_j;
      }
    }
  }
  if (bias.mask) {
    const uint8_t* mask =
        bias.mask + seg.mask + head * bias.mask_strides.head + i * bias.mask_strides.row + k0;
    for (int64_t j = span.lo; j < span.hi; ++j) s[j] = mask[j] ? -kInfinity : s[j];
  }
}

// x *= keep / keep_prob for the visible keys of a row.
inline void dropout_row(const ScoreBias& bias, const ScoreRow& row, float* x) {
  const auto& [seg, head, i, k0, n] = row;
  const Span span = row.visible();
  int64_t bit = seg.drop + (head * seg.q_len + i) * seg.kv_len + k0;
  for (int64_t j = span.lo; j < span.hi; ++j) {
    bool keep = bias.drop[(bit + j) >> 3] >> ((bit + j) & 7) & 1;
    x[j] = keep ? x[j] * bias.inv_keep : 0.0f;
  }
}

}  // namespace
}  // namespace nsa::cpu
