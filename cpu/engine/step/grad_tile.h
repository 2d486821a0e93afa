// The five products of the attention gradient for one tile of rows and one KV block:
//   S = Q K^T,  P = exp(scale S - max) / sum,  dP = dO V^T,  dS = P (dP - delta)
//   delta = rowsum(dO O) - sum * its gradient: the sum is of exp(scale S - max), max a constant
//   dV += P^T dO,  dK += dS^T Q,  dQ += dS K          (dQ and dK still without scale)
// On bf16 words P and dS are rounded to bf16 for the last three; all sums are floats. Where a
// product reads its left side along rows only (kRowsOnly) dV and dK are summed transposed.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/plan/grad_schedule.h"
#include "cpu/engine/step/bias.h"
#include "cpu/engine/step/kernel_variant.h"
#include "cpu/engine/step/online_softmax.h"

namespace nsa::cpu {
namespace {

// KV blocks that are next to each other, in the words of a variant. Lanes and rows past n are
// zero.
struct GradKeys {
  const float* kt;  // [KV blocks, words(D), lanes], as pack_transposed() has them
  const float* vt;  // [KV blocks, words(Dv), lanes] likewise
  const float* k;   // [words(KV blocks lanes), D padded]
  int64_t lanes;    // of a KV block
  int64_t j0;       // first key in the segment
  int64_t n;
  bool finite;  // k is all finite
  // Where scores are as bf16x3: tiles [3 D / 2, 16] of 16 lanes, and whether they stand for the
  // keys.
  const float* bf16x3;
  bool small;
};

inline bool all_true(const bool* x, int64_t n) {
  bool all = true;
  for (int64_t i = 0; i < n; ++i) all = all && x[i];
  return all;
}

// Whether a work item makes the rows of its keys itself: as floats, those of all keys would take as
// much scratch as each of the forms in columns, and be read from memory.
template <class Variant>
constexpr bool kOwnRows = Variant::kForm.per_word == 1;

// Keys [j0, j0 + n) of a pair, whose KV blocks, of `lanes` keys each, begin with number `at`.
struct PairKeys {
  const AttentionGradPlan& plan;
  const GradPair& pair;
  int64_t at, lanes, j0, n;

  KeyRows rows() const {
    const Segment& seg = plan.segments[pair.segment];
    return {seg.k + pair.kv_head * plan.k.head + j0 * plan.k.row,
            seg.v + pair.kv_head * plan.v.head + j0 * plan.v.row, n};
  }
};

// own: their rows, where the work item has them.
template <class Variant>
inline GradKeys packed_keys(const PairKeys& of, const GradScratch& s, const float* own) {
  const auto& [plan, pair, at, lanes, j0, n] = of;
  return {s.keys_t + at * words<Variant>(plan.D) * lanes,
          s.values_t + at * words<Variant>(plan.Dv) * lanes,
          kOwnRows<Variant> ? own : s.keys + at * words<Variant>(lanes) * padded_row(plan.D),
          lanes,
          j0,
          n,
          all_true(s.finite + at, ceil_div(n, lanes)),
          plan.scores_as_bf16x3 ? s.key_bf16x3 + at * 3 * plan.D / 2 * kKvBlockKeys : nullptr,
          plan.scores_as_bf16x3 && all_true(s.small + at, ceil_div(n, lanes))};
}

// Packs a KV block as rows.
template <class Variant>
inline void pack_key_rows(const PairKeys& keys, float* rows) {
  pack_rows<Variant>(keys_of(keys.plan, keys.rows()), keys.plan.D, keys.lanes, rows);
}

// The forms of a KV block that are shared: columns of keys and of values, and rows. Gives whether
// its keys are finite.
template <class Variant>
inline bool pack_grad_keys(const PairKeys& keys, const GradScratch& s, float* tmp) {
  const auto& [plan, pair, at, lanes, j0, n] = keys;
  const int64_t count = words<Variant>(plan.D) * lanes;
  pack_transposed<Variant>(keys_of(plan, keys.rows()), plan.D, lanes, s.keys_t + at * count, tmp);
  pack_transposed<Variant>(values_of(plan, keys.rows()), plan.Dv, lanes,
                           s.values_t + at * words<Variant>(plan.Dv) * lanes, tmp);
  if constexpr (!kOwnRows<Variant>)
    pack_key_rows<Variant>(keys, s.keys + at * words<Variant>(lanes) * padded_row(plan.D));
  return packed_finite<Variant>(s.keys_t + at * count, count);
}

// The form of a KV block as bf16x3. tmp: [16, 3 D / 2 + 16].
template <class Variant>
inline void pack_key_bf16x3(const PairKeys& keys, const GradScratch& s, float* tmp) {
  const int64_t size = Variant::kForm.words(keys.plan.D) * kKvBlockKeys;
  s.small[keys.at] =
      Variant::pack_key_columns(keys.plan, keys.rows(), s.key_bf16x3 + keys.at * size, tmp);
}

// Words of a tile's rows, three cache lines.
constexpr int64_t kRowWords = kTileRows / 2;
// Query, dy, dq and two statistics of a tile's rows, and a KV block in three forms.
constexpr int64_t kPrefetchRanges = 5 * kTileRows + 3;

struct GradBuffers {
  float* q;         // [rows, words(D)], rows D padded apart
  float* dy;        // [rows, words(Dv)], rows Dv padded apart
  float* q_words;   // [words(rows), D padded] along a contraction over rows; of floats q itself
  float* dy_words;  // [words(rows), Dv padded] likewise
  float* q_t;       // [D padded, kRowWords] q_words transposed; kRowsOnly
  float* dy_t;      // [Dv padded, kRowWords] likewise
  float* p;   // [rows, kScoreRow] S, then P; of bf16 words of P and of dS by turns, see grad_rows()
  float* ds;  // [rows, kScoreRow] dP, then dS; of bf16 words along a row
  float* dq;  // [rows, D padded]
  float* max;       // [rows]
  float* inv;       // [rows] 1 / sum, 0 for a row without keys
  float* delta;     // [rows] row_delta()
  int64_t* q_at;    // [rows] where a row of the query begins
  int64_t* dy_at;   // [rows] likewise
  float* tmp;       // [max(kTileKeys, D, Dv) + padding]
  bool finite;      // q and dy are all finite
  float* q_bf16x3;  // [rows + kRowsPast, ld_bf16x3] where scores are as bf16x3
  int64_t ld_bf16x3;
  bool small;              // they stand for the rows
  PrefetchQueue prefetch;  // what the next tile reads

  template <class Variant>
  static GradBuffers carve(Arena& arena, int64_t D, int64_t Dv) {
    const int64_t ld = padded_row(D), ldv = padded_row(Dv);
    constexpr bool two = Variant::kForm.per_word == 2;
    GradBuffers b{};
    b.q = arena.take<float>(kTileRows * ld);
    b.dy = arena.take<float>(kTileRows * ldv);
    b.q_words = two ? arena.take<float>(kTileRows / 2 * ld) : b.q;
    b.dy_words = two ? arena.take<float>(kTileRows / 2 * ldv) : b.dy;
    b.q_t = kRowsOnly<Variant> ? arena.take<float>(ld * kRowWords) : nullptr;
    b.dy_t = kRowsOnly<Variant> ? arena.take<float>(ldv * kRowWords) : nullptr;
    b.p = arena.take<float>(kTileRows * kScoreRow);
    b.ds = arena.take<float>(kTileRows * kScoreRow);
    b.dq = arena.take<float>(kTileRows * ld);
    b.max = arena.take<float>(kTileRows);
    b.inv = arena.take<float>(kTileRows);
    b.delta = arena.take<float>(kTileRows);
    b.q_at = arena.take<int64_t>(kTileRows);
    b.dy_at = arena.take<int64_t>(kTileRows);
    b.tmp = arena.take<float>(max64(kTileKeys, max64(ld, ldv)) + kLanePad);
    b.prefetch = PrefetchQueue::carve(arena, kPrefetchRanges);
    if constexpr (kScoresSplit<Variant>) {
      using Bf16x3 = typename Variant::Scores;
      b.ld_bf16x3 = Bf16x3::kForm.words(D) + Bf16x3::kForm.align;
      b.q_bf16x3 = arena.take<float>((kTileRows + Bf16x3::kRowsPast) * b.ld_bf16x3);
    }
    return b;
  }
};

// rowsum(dO O) of one row, added in the order in which the matmul adds dP = dO V^T: where a row has
// one key left, O equals its V, and dP - delta must cancel exactly.
template <class Variant>
inline float row_dot(const AttentionGradPlan& plan, int64_t offset, float* dy, float* out) {
  pack_row<Variant>(plan.dtype, plan.dy, offset, plan.Dv, dy);
  pack_row<Variant>(plan.dtype, plan.out, offset, plan.Dv, out);
  return Variant::dot_in_order(dy, out, words<Variant>(plan.Dv));
}

// delta of a row from rowsum(dO O); `stat` is where its statistics begin. Zeros change nothing,
// whatever the sum is.
inline float row_delta(const AttentionGradPlan& plan, float dot, int64_t stat) {
  if (plan.sum_grad == nullptr) return dot;
  float grad = 0.0f;
  for (int64_t n = 0; n < kSoftmaxLanes; ++n) grad += plan.sum_grad[stat + n];
  return grad == 0.0f ? dot : dot - plan.softmax_sum[stat] * grad;
}

// A row of n elements as floats, padded with zeros to ld; copy_checked() of it.
inline V load_row(ElemType t, const void* src, int64_t offset, int64_t n, int64_t ld, float* dst,
                  V acc) {
  const float* row = static_cast<const float*>(src) + offset;
  if (t != ElemType::kFloat32) {
    to_float(t, src, offset, n, dst);
    row = dst;
  }
  acc = copy_checked(row, n, dst, acc);
  fill(dst + n, ld - n, 0.0f);
  return acc;
}

// dst[d][w] = src[w][d] for `rows` rows of words, ld apart in src and kRowWords in dst.
template <class Variant>
inline void transpose_words(const float* src, int64_t rows, int64_t ld, float* dst) {
  for (int64_t w = 0; w < rows; w += W)
    for (int64_t d = 0; d < ld; d += W)
      Variant::transpose(src + w * ld + d, ld, dst + d * kRowWords + w, kRowWords);
}

// visit(r, i, head) for all rows of a tile: query(r), head(r), rows().
template <class Rows, class Visit>
inline void each_row(const Rows& c, const Visit& visit) {
  for (int64_t r = 0; r < c.rows(); ++r) visit(r, c.query(r), c.head(r));
}

// Rows: as each_row() takes them, and seg. delta is [q_len, G] of the pair.
template <class Variant, class Rows>
inline void load_grad_rows(const AttentionGradPlan& plan, const Rows& c, const float* delta,
                           GradBuffers& b) {
  const int64_t ld = padded_row(plan.D), ldv = padded_row(plan.Dv);
  const int64_t first_head = c.head(0) / plan.G * plan.G;  // of the group
  [[maybe_unused]] V finite = zero();
  [[maybe_unused]] V top = zero();
  each_row(c, [&](int64_t r, int64_t i, int64_t head) {
    b.q_at[r] = c.seg.q + i * plan.q.row + head * plan.q.head;
    b.dy_at[r] = c.seg.o + i * plan.o.row + head * plan.o.head;
    if constexpr (Variant::kForm.per_word == 1) {
      finite = load_row(plan.dtype, plan.query, b.q_at[r], plan.D, ld, b.q + r * ld, finite);
      finite = load_row(plan.dtype, plan.dy, b.dy_at[r], plan.Dv, ldv, b.dy + r * ldv, finite);
      if constexpr (kScoresSplit<Variant>) {
        if (plan.scores_as_bf16x3)
          top = Variant::Scores::split_row(plan.dtype, plan.query, b.q_at[r], plan.D,
                                           b.q_bf16x3 + r * b.ld_bf16x3, top);
      }
    }
    const int64_t stat = c.seg.stat + i * plan.stat.row + head * plan.stat.head;
    b.max[r] = plan.softmax_max[stat];
    b.inv[r] = SoftmaxState::inverse_of(b.max[r], plan.softmax_sum[stat]);
    b.delta[r] = delta[i * plan.G + head - first_head];
  });
  if constexpr (Variant::kForm.per_word == 2) {
    const bool q =
        Variant::load_row_words(plan.query, c.rows(), plan.D, ld, b.q_at, b.q, b.q_words);
    const bool dy =
        Variant::load_row_words(plan.dy, c.rows(), plan.Dv, ldv, b.dy_at, b.dy, b.dy_words);
    b.finite = q && dy;
    const int64_t used = ceil_div(c.rows(), 2), count = words<Variant>(c.rows());
    fill(b.q_words + used * ld, (count - used) * ld, 0.0f);
    fill(b.dy_words + used * ldv, (count - used) * ldv, 0.0f);
    if constexpr (kRowsOnly<Variant>) {
      transpose_words<Variant>(b.q_words, count, ld, b.q_t);
      transpose_words<Variant>(b.dy_words, count, ldv, b.dy_t);
    }
  } else {
    b.finite = hsum(finite) == 0.0f;
    if constexpr (kScoresSplit<Variant>) b.small = Variant::Scores::small(top);
  }
}

// dpse += dS (times scale where the bias is added before it).
inline void dpse_row(const AttentionGradPlan& plan, const ScoreRow& row, const float* ds,
                     float* tmp) {
  const Span span = row.visible();
  const int64_t count = span.hi - span.lo;
  const int64_t at = pse_offset(plan.bias, row.seg, row.head, row.i) + row.k0 + span.lo;
  const float factor = plan.bias.pse_before_scale ? plan.scale : 1.0f;
  to_float(plan.dpse_elem, plan.dpse, at, count, tmp);
  for (int64_t j = 0; j < count; ++j) tmp[j] += factor * ds[span.lo + j];
  from_float(plan.dpse_elem, tmp, count, plan.dpse, at);
}

// dS = P (dP - delta); 0 where P is, whatever dP is.
inline V score_grad(V p, V dp, V delta) {
  return where_lt(p, set1(kFloatMin), zero(), mul(p, sub(dp, delta)));
}

inline void ds_row(const float* p, float* dp, int64_t n, float delta) {
  expect<Length::kWholeVectors>(n);
  const V shift = set1(delta);
  for (int64_t j = 0; j < n; j += W) store(dp + j, score_grad(load(p + j), load(dp + j), shift));
}

// Inputs of a row's P and dS, broadcast to every lane.
struct GradRow {
  V scale, max, inv, delta;

  GradRow(const AttentionGradPlan& plan, const GradBuffers& b, int64_t r)
      : scale(set1(plan.scale)),
        max(set1(b.max[r])),
        inv(set1(b.inv[r])),
        delta(set1(b.delta[r])) {}

  // Probability of a raw product with a visible key.
  V probability(V s) const { return mul(exp_below(mul(s, scale), max), inv); }
};

// Rows [r, r + count) of a step, count at most Variant::kForm.per_word, nothing but the products of
// visible keys counting, those of others being -inf: P and dS in the form in which the other
// products read them. Words of two rows of P take the place of the first, and those of dS in b.p
// that of the second.
template <class Variant>
inline void grad_rows(const AttentionGradPlan& plan, int64_t r, [[maybe_unused]] int64_t count,
                      int64_t lanes, GradBuffers& b) {
  float *p = b.p + r * kScoreRow, *ds = b.ds + r * kScoreRow;
  const GradRow row(plan, b, r);
  if constexpr (Variant::kForm.per_word == 1) {
    for (int64_t j = 0; j < lanes; j += W) {
      const V x = row.probability(load(p + j));
      store(p + j, x);
      store(ds + j, score_grad(x, load(ds + j), row.delta));
    }
  } else {
    if (count == 1) {
      for (int64_t j = 0; j < lanes; j += W) {
        const V x = row.probability(load(p + j)), y = score_grad(x, load(ds + j), row.delta);
        store(p + j, Variant::word(x, zero()));
        store(p + kScoreRow + j, Variant::word(y, zero()));
        Variant::put(ds, j, y);
      }
      return;
    }
    const GradRow next(plan, b, r + 1);
    for (int64_t j = 0; j < lanes; j += W) {
      const V x0 = row.probability(load(p + j)), x1 = next.probability(load(p + kScoreRow + j));
      const V y0 = score_grad(x0, load(ds + j), row.delta);
      const V y1 = score_grad(x1, load(ds + kScoreRow + j), next.delta);
      store(p + j, Variant::word(x0, x1));
      store(p + kScoreRow + j, Variant::word(y0, y1));
      Variant::put(ds, j, y0);
      Variant::put(ds + kScoreRow, j, y1);
    }
  }
}

// P and dS of rows [r, r + count), computed before, in that form.
template <class Variant>
inline void word_grad_rows([[maybe_unused]] int64_t r, [[maybe_unused]] int64_t count,
                           [[maybe_unused]] int64_t lanes, [[maybe_unused]] GradBuffers& b) {
  if constexpr (Variant::kForm.per_word == 2) {
    float *p = b.p + r * kScoreRow, *ds = b.ds + r * kScoreRow;
    for (int64_t j = 0; j < lanes; j += W) {
      const V x0 = load(p + j), y0 = load(ds + j);
      const V x1 = count == 2 ? load(p + kScoreRow + j) : zero();
      const V y1 = count == 2 ? load(ds + kScoreRow + j) : zero();
      store(p + j, Variant::word(x0, x1));
      store(p + kScoreRow + j, Variant::word(y0, y1));
      Variant::put(ds, j, y0);
      if (count == 2) Variant::put(ds + kScoreRow, j, y1);
    }
  }
}

// The scores of row r become P, its dP becomes dS, whatever changes or hides them. Key 0 is j0 of
// the segment, `real` of the lanes are keys.
template <class Rows>
inline void masked_grad_row(const AttentionGradPlan& plan, const Rows& c, int64_t r, int64_t j0,
                            int64_t real, int64_t lanes, bool unmasked, GradBuffers& b) {
  float *row = b.p + r * kScoreRow, *dp = b.ds + r * kScoreRow;
  const ScoreRow scores = {c.seg, c.head(r), c.query(r), j0, real};
  float scale = plan.scale;
  if (!unmasked) {
    bias_row(plan.bias, scores, scale, row, b.tmp);
    fill(row + real, lanes - real, -kInfinity);
    scale = 1.0f;
  }
  probabilities_row(row, lanes, scale, b.max[r], b.inv[r]);
  if (plan.bias.drop) dropout_row(plan.bias, scores, dp);
  ds_row(row, dp, lanes, b.delta[r]);
  if (plan.dpse) dpse_row(plan, scores, dp, b.tmp);
  if (plan.bias.drop) dropout_row(plan.bias, scores, row);
}

// The sums of a work item for its keys: of each key a row, or a column where they are transposed.
template <class Variant>
struct KeySums {
  float* data;
  int64_t ld;

  KeySums key(int64_t j) const { return {data + (kRowsOnly<Variant> ? j : j * ld), ld}; }
};

// How many keys and rows a step has, the keys padded to lanes.
struct StepSizes {
  int64_t real, lanes, rows;
};

// Rows of dO or Q in words of two rows, [words(rows), ld], and transposed, for kRowsOnly.
struct RowWords {
  const float* data;
  int64_t ld;
  const float* transposed;
};

// sums += A^T B, `width` columns of B: A, words of two rows [words(rows), kScoreRow 2] of P or dS.
template <class Variant>
inline void add_key_products(bool finite_only, StepSizes of, int64_t width, float* a, RowWords b,
                             KeySums<Variant> sums, PrefetchQueue* prefetch) {
  constexpr int64_t per_word = Variant::kForm.per_word, lda = per_word * kScoreRow;
  const auto [real, lanes, rows] = of;
  const int64_t count = words<Variant>(rows);
  const Lanes right = {b.data, b.ld};
  if constexpr (kRowsOnly<Variant>) {
    // Words past the rows would be multiplied with zeros, but they may be NaN or infinite.
    for (int64_t w = ceil_div(rows, per_word); w < count; ++w) fill(a + w * lda, lanes, 0.0f);
    if (finite_only)
      return matmul<typename Variant::Step>({width, lanes, count}, {b.transposed, kRowWords, 1},
                                            {a, lda}, {sums.data, sums.ld},
                                            {Into::kAdd, nullptr, prefetch});
    matmul_visible(per_word, {real, width, count}, {a, 1, lda}, right, {sums.data, 1}, {Into::kAdd},
                   sums.ld);
  } else {
    multiply_values<Variant>(finite_only, {real, width, count}, {a, 1, lda}, right,
                             {sums.data, sums.ld}, {Into::kAdd, nullptr, prefetch});
  }
}

// Raw S of `rows` rows from r0 on with lanes [n0, n1).
template <class Variant>
inline void grad_scores(const AttentionGradPlan& plan, const GradKeys& keys, int64_t r0,
                        int64_t rows, int64_t n0, int64_t n1, GradBuffers& b) {
  const int64_t ld = padded_row(plan.D);
  float* s = b.p + r0 * kScoreRow;
  if constexpr (kScoresSplit<Variant>) {
    if (keys.small && b.small) {
      using Bf16x3 = typename Variant::Scores;
      return Bf16x3::scores(rows, n1 - n0, plan.D, b.q_bf16x3 + r0 * b.ld_bf16x3, b.ld_bf16x3,
                            keys.bf16x3 + n0 * Bf16x3::kForm.words(plan.D), s, kScoreRow);
    }
  }
  key_products<Variant>(Operand{b.q + r0 * ld, ld, 1}, rows,
                        {keys.kt, words<Variant>(plan.D), keys.lanes}, n0, n1, {s, kScoreRow},
                        &b.prefetch);
}

// Rows [r0, r1) of a tile against lanes [n0, n1) of KV blocks; r0 begins a word, and of kRowsOnly a
// tile's words. unmasked: every row sees all of them, and nothing else changes scores.
template <class Variant>
struct GradStep {
  int64_t r0, r1, n0, n1;
  bool unmasked;
  KeySums<Variant> dk, dv;  // of the keys of the KV blocks
  Into into_dq = Into::kAdd;
};

// A call: within a caller's loops the constants of the exponential do not stay in registers.
template <class Variant, class Rows>
[[gnu::noinline]] inline void grad_step(const AttentionGradPlan& plan, const Rows& c,
                                        const GradKeys& keys, const GradStep<Variant>& step,
                                        GradBuffers& b) {
  const int64_t r0 = step.r0, r1 = step.r1, n0 = step.n0, n1 = step.n1;
  const bool unmasked = step.unmasked;
  constexpr int64_t per_word = Variant::kForm.per_word;
  expect<Length::kPadded>(n0);
  expect<Length::kPadded>(n1);
  const int64_t ld = padded_row(plan.D), ldv = padded_row(plan.Dv);
  const int64_t lanes_d = round_up(plan.D, kLanePad), lanes_v = round_up(plan.Dv, kLanePad);
  const int64_t rows = r1 - r0, lanes = n1 - n0, real = min64(n1, keys.n) - n0;
  float *p = b.p + r0 * kScoreRow, *ds = b.ds + r0 * kScoreRow;
  grad_scores<Variant>(plan, keys, r0, rows, n0, n1, b);
  key_products<Variant>(Operand{b.dy + r0 * ldv, ldv, 1}, rows,
                        {keys.vt, words<Variant>(plan.Dv), keys.lanes}, n0, n1, {ds, kScoreRow},
                        &b.prefetch);
  // Where visibility alone changes scores, rows that it cuts are like the others.
  const bool hidden = !unmasked && !plan.bias.changes_scores() && plan.scale > 0.0f;
  const bool no_bias = (unmasked || hidden) && plan.bias.drop == nullptr && plan.dpse == nullptr;
  for (int64_t r = r0; no_bias && hidden && r < r1; ++r)
    hide_unseen(c.seg.range, c.query(r), keys.j0 + n0, real, lanes, b.p + r * kScoreRow);
  for (int64_t r = r0; r < r1; r += per_word) {
    const int64_t count = min64(per_word, r1 - r);
    if (no_bias && in_exp_range(b.max[r]) && in_exp_range(b.max[r + count - 1])) {
      grad_rows<Variant>(plan, r, count, lanes, b);
      continue;
    }
    for (int64_t k = r; k < r + count; ++k)
      masked_grad_row(plan, c, k, keys.j0 + n0, real, lanes, unmasked, b);
    word_grad_rows<Variant>(r, count, lanes, b);
  }
  // grad_rows() has put them there.
  float* ds_words = per_word == 2 ? p + kScoreRow : ds;
  const int64_t first = r0 / per_word;
  const StepSizes of = {real, lanes, rows};
  const RowWords dy = {b.dy_words + first * ldv, ldv,
                       kRowsOnly<Variant> ? b.dy_t + first : nullptr};
  const RowWords q = {b.q_words + first * ld, ld, kRowsOnly<Variant> ? b.q_t + first : nullptr};
  add_key_products<Variant>(b.finite, of, lanes_v, p, dy, step.dv.key(n0), &b.prefetch);
  add_key_products<Variant>(b.finite, of, lanes_d, ds_words, q, step.dk.key(n0), &b.prefetch);
  multiply_values<Variant>(keys.finite, {rows, lanes_d, words<Variant>(real)}, {ds, kScoreRow, 1},
                           {keys.k + n0 / per_word * ld, ld}, {b.dq + r0 * ld, ld},
                           {step.into_dq, nullptr, &b.prefetch});
}

// How often grad_step() calls ahead.step().
template <class Variant>
constexpr int64_t grad_step_steps(const AttentionGradPlan& plan, int64_t rows, int64_t lanes) {
  using Step = typename Variant::Step;
  const int64_t keys = kRowsOnly<Variant>
                           ? matmul_steps<Step>(plan.Dv, lanes) + matmul_steps<Step>(plan.D, lanes)
                           : matmul_steps<Step>(lanes, plan.Dv) + matmul_steps<Step>(lanes, plan.D);
  return 2 * matmul_steps<Step>(rows, lanes) + keys + matmul_steps<Step>(rows, plan.D);
}

inline void add_scaled(float* dst, const float* src, int64_t n, float factor) {
  const V f = set1(factor);
  int64_t i = 0;
  for (; i + W <= n; i += W) store(dst + i, fma(load(src + i), f, load(dst + i)));
  for (; i < n; ++i) dst[i] += src[i] * factor;
}

}  // namespace
}  // namespace nsa::cpu
