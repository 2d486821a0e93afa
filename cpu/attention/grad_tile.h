// The five products of the attention gradient for one tile of rows and one block of keys:
//   S = Q K^T,  P = exp(scale S - max) / sum,  dP = dO V^T,  dS = P (dP - rowsum(dO O))
//   dV += P^T dO,  dK += dS^T Q,  dQ += dS K          (dQ and dK still without scale)
#pragma once

#include "cpu/attention/bias.h"
#include "cpu/attention/online_softmax.h"
#include "cpu/attention/pack.h"
#include "cpu/attention/schedule.h"

namespace nsa::cpu {
namespace {

// A packed block of keys. Lanes and rows past n are zero.
struct GradKeys {
  const float* kt;  // [D, lanes]
  const float* vt;  // [Dv, lanes]
  const float* k;   // [lanes, D padded]
  int64_t lanes;
  int64_t j0;  // first key in the segment
  int64_t n;
  bool finite;  // k holds numbers only
};

struct GradBuffers {
  float* q;      // [rows, D padded]
  float* dy;     // [rows, Dv padded]
  float* p;      // [rows, kScoreRow]
  float* ds;     // [rows, kScoreRow]
  float* dq;     // [rows, D padded]
  float* max;    // [rows]
  float* inv;    // [rows] 1 / sum, 0 for a row without keys
  float* delta;  // [rows] rowsum(dO O)
  float* tmp;    // [max(kTileKeys, D, Dv) + padding]
  bool finite;   // q and dy hold numbers only

  static GradBuffers carve(Arena& arena, int64_t D, int64_t Dv) {
    const int64_t ld = padded_row(D), ldv = padded_row(Dv);
    GradBuffers b;
    b.q = arena.take<float>(kTileRows * ld);
    b.dy = arena.take<float>(kTileRows * ldv);
    b.p = arena.take<float>(kTileRows * kScoreRow);
    b.ds = arena.take<float>(kTileRows * kScoreRow);
    b.dq = arena.take<float>(kTileRows * ld);
    b.max = arena.take<float>(kTileRows);
    b.inv = arena.take<float>(kTileRows);
    b.delta = arena.take<float>(kTileRows);
    b.tmp = arena.take<float>(max64(kTileKeys, max64(ld, ldv)) + kLanePad);
    return b;
  }
};

// rowsum(dO O) of one row, added in the order in which the matmul adds dP = dO V^T: where a row has
// one key left, O equals its V, and dP - delta must cancel exactly.
inline float row_delta(const AttentionGradPlan& plan, int64_t offset, float* dy, float* out) {
  to_float(plan.dtype, plan.dy, offset, plan.Dv, dy);
  to_float(plan.dtype, plan.out, offset, plan.Dv, out);
  return dot_in_order(dy, out, plan.Dv);
}

// Rows: query(r), head(r), rows(), seg. delta is [q_len, G] of the pair.
template <class Rows>
inline void load_grad_rows(const AttentionGradPlan& plan, const Rows& c, const float* delta,
                           GradBuffers& b) {
  const int64_t ld = padded_row(plan.D), ldv = padded_row(plan.Dv);
  for (int64_t r = 0; r < c.rows(); ++r) {
    const int64_t i = c.query(r), head = c.head(r);
    to_float(plan.dtype, plan.query, c.seg.q + i * plan.q.row + head * plan.q.head, plan.D,
             b.q + r * ld);
    fill(b.q + r * ld + plan.D, ld - plan.D, 0.0f);
    to_float(plan.dtype, plan.dy, c.seg.o + i * plan.o.row + head * plan.o.head, plan.Dv,
             b.dy + r * ldv);
    fill(b.dy + r * ldv + plan.Dv, ldv - plan.Dv, 0.0f);
    const int64_t stat = c.seg.stat + i * plan.stat.row + head * plan.stat.head;
    b.max[r] = load1(ElemType::kFloat32, plan.softmax_max, stat);
    b.inv[r] =
        SoftmaxState::inverse_of(b.max[r], load1(ElemType::kFloat32, plan.softmax_sum, stat));
    b.delta[r] = delta[i * plan.G + head % plan.G];
  }
  b.finite = all_finite(b.q, c.rows() * ld) && all_finite(b.dy, c.rows() * ldv);
}

// dpse += dS (times scale where the bias is added before it). Element j of dS is key j0 + j.
inline void dpse_row(const AttentionGradPlan& plan, const Segment& seg, int64_t head, int64_t i,
                     int64_t j0, int64_t n, const float* ds, float* tmp) {
  Span span = visible_span(seg.range, i, j0, n);
  const int64_t count = span.hi - span.lo;
  const int64_t at = pse_offset(plan.bias, seg, head, i) + j0 + span.lo;
  const float factor = plan.bias.pse_before_scale ? plan.scale : 1.0f;
  to_float(plan.dpse_elem, plan.dpse, at, count, tmp);
  for (int64_t j = 0; j < count; ++j) tmp[j] += factor * ds[span.lo + j];
  from_float(plan.dpse_elem, tmp, count, plan.dpse, at);
}

// dS = P (dP - delta); 0 where P is, whatever dP is.
inline void ds_row(const float* p, float* dp, int64_t n, float delta) {
  expect<Length::kWholeVectors>(n);
  const V shift = set1(delta), least = set1(kFloatMin);
  for (int64_t j = 0; j < n; j += W) {
    const V x = load(p + j);
    store(dp + j, where_lt(x, least, zero(), mul(x, sub(load(dp + j), shift))));
  }
}

// Rows [r0, r1) of the tile against lanes [n0, n1) of a block. dk, dv: [n, ..] rows of this block.
template <class Rows>
inline void grad_step(const AttentionGradPlan& plan, const Rows& c, const GradKeys& keys,
                      int64_t r0, int64_t r1, int64_t n0, int64_t n1, bool plain, GradBuffers& b,
                      float* dk, float* dv) {
  expect<Length::kPadded>(n0);
  expect<Length::kPadded>(n1);
  const int64_t ld = padded_row(plan.D), ldv = padded_row(plan.Dv);
  const int64_t lanes_d = round_up(plan.D, kLanePad), lanes_v = round_up(plan.Dv, kLanePad);
  const int64_t rows = r1 - r0, lanes = n1 - n0, real = min64(n1, keys.n) - n0;
  float *p = b.p + r0 * kScoreRow, *ds = b.ds + r0 * kScoreRow;
  matmul<FloatStep>(rows, lanes, plan.D, {b.q + r0 * ld, ld, 1}, keys.kt + n0, keys.lanes, p,
                    kScoreRow, Into::kReplace);
  matmul<FloatStep>(rows, lanes, plan.Dv, {b.dy + r0 * ldv, ldv, 1}, keys.vt + n0, keys.lanes, ds,
                    kScoreRow, Into::kReplace);
  const int64_t j0 = keys.j0 + n0;
  for (int64_t r = r0; r < r1; ++r) {
    float *row = b.p + r * kScoreRow, *dp = b.ds + r * kScoreRow;
    float scale = plan.scale;
    if (!plain) {
      bias_row(plan.bias, c.seg, c.head(r), c.query(r), j0, real, scale, row, b.tmp);
      fill(row + real, lanes - real, -kInfinity);
      scale = 1.0f;
    }
    probabilities_row(row, lanes, scale, b.max[r], b.inv[r]);
    if (plan.bias.drop) dropout_row(plan.bias, c.seg, c.head(r), c.query(r), j0, real, dp);
    ds_row(row, dp, lanes, b.delta[r]);
    if (plan.dpse) dpse_row(plan, c.seg, c.head(r), c.query(r), j0, real, dp, b.tmp);
    if (plan.bias.drop) dropout_row(plan.bias, c.seg, c.head(r), c.query(r), j0, real, row);
  }
  multiply_values<FloatPath>(b.finite, real, lanes_v, rows, {p, 1, kScoreRow}, b.dy + r0 * ldv, ldv,
                             dv + n0 * ldv, ldv, Into::kAdd);
  multiply_values<FloatPath>(b.finite, real, lanes_d, rows, {ds, 1, kScoreRow}, b.q + r0 * ld, ld,
                             dk + n0 * ld, ld, Into::kAdd);
  multiply_values<FloatPath>(keys.finite, rows, lanes_d, real, {ds, kScoreRow, 1}, keys.k + n0 * ld,
                             ld, b.dq + r0 * ld, ld, Into::kAdd);
}

inline void add_scaled(float* dst, const float* src, int64_t n, float factor) {
  const V f = set1(factor);
  int64_t i = 0;
  for (; i + W <= n; i += W) store(dst + i, fma(load(src + i), f, load(dst + i)));
  for (; i < n; ++i) dst[i] += src[i] * factor;
}

}  // namespace
}  // namespace nsa::cpu
