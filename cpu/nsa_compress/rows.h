// Shared by NsaCompress and its gradients: sums over a few rows of one head, and the walk over the
// tokens of neighbouring windows.
#pragma once

#include "cpu/engine/simd/vec_math.h"
#include "cpu/nsa_compress/compress_plan.h"

namespace nsa::cpu {
namespace {

struct FloatElem {
  using Type = float;
  static constexpr ElemType kType = ElemType::kFloat32;
  static V load(const float* p) { return nsa::cpu::load(p); }
  static void store(float* p, V x) { nsa::cpu::store(p, x); }
};
struct HalfElem {
  using Type = uint16_t;
  static constexpr ElemType kType = ElemType::kFloat16;
  static V load(const uint16_t* p) { return load_f16(p); }
  static void store(uint16_t* p, V x) { store_f16(p, x); }
};
struct BFloat16Elem {
  using Type = uint16_t;
  static constexpr ElemType kType = ElemType::kBFloat16;
  static V load(const uint16_t* p) { return load_bf16(p); }
  static void store(uint16_t* p, V x) { store_bf16(p, x); }
};

// Calls f with an object of t's type above.
template <class F>
inline void with_elem(ElemType t, const F& f) {
  switch (t) {
    case ElemType::kFloat32:
      return f(FloatElem{});
    case ElemType::kFloat16:
      return f(HalfElem{});
    case ElemType::kBFloat16:
      return f(BFloat16Elem{});
  }
}

inline void load_weight(const CompressPlan& plan, float* weight) {
  to_float(plan.p.dtype, plan.p.weight, 0, plan.p.compress_block_size * plan.p.N, weight);
}

// Rows that are added together. Eight, for two windows, need 16 vectors of weights; four of float32
// fetch memory faster, and four of 16 bits are slower, because converting is most of their work.
template <class Elem>
constexpr int kRows = kMR * kNR >= 16 && Elem::kType != ElemType::kFloat32 ? 8 : 4;

template <int N>
struct Constant {
  constexpr operator int() const { return N; }
};

// Calls f(size, k) for the runs that [0, count) is cut into, in order: as many as can be of size K,
// which is a constant, then smaller ones.
template <int K, class F>
inline void in_runs(int64_t count, F f, int64_t k = 0) {
  for (; k + K <= count; k += K) f(Constant<K>{}, k);
  if constexpr (K > 1) in_runs<K / 2>(count, f, k);
}

// Calls f(size) with the constant 0, 1 or 2 that is the nearest to `count`.
template <class F>
inline void at_most_two(int64_t count, F f) {
  if (count >= 2) return f(Constant<2>{});
  if (count == 1) return f(Constant<1>{});
  f(Constant<0>{});
}

// Element d of row k is data[k * stride + d].
template <class Elem>
struct HeadRows {
  const typename Elem::Type* data;
  int64_t stride;

  V at(int64_t k, int64_t d) const { return Elem::load(data + k * stride + d); }
  float at1(int64_t k, int64_t d) const { return load1(Elem::kType, data, k * stride + d); }
  HeadRows row(int64_t k) const { return {data + k * stride, stride}; }
  HeadRows head(int64_t at) const { return {data + at, stride}; }
};

// Vector d of row k of K, and a prefetch of memory that is read later: K rows of n elements
// prefetch K * n elements from `next` on, one line after the other. Many at once would fill the
// processor's list of lines on their way, and loads after them would wait; held() keeps the
// compiler from collecting them. Inlined by force: gcc drops calls of a function that only
// prefetches, as without effect.
template <class Elem, int K>
[[gnu::always_inline]] inline V load_next(const HeadRows<Elem>& rows, int k, int64_t d,
                                          const typename Elem::Type*& next) {
  constexpr int kLine = 64 / elem_size(Elem::kType);
  const V x = held(rows.at(k, d), next);
  if (k * W % kLine == 0) __builtin_prefetch(next + d * K + k * W, 0, 2);
  return x;
}

template <int R>
struct RowSums {
  float* row[R];

  RowSums head(int64_t at) const {
    RowSums result;
    for (int r = 0; r < R; ++r) result.row[r] = row[r] + at;
    return result;
  }
};

// acc.row[r][0..n) += sum over k < K of w[k * w_stride + r * w_window] * row k, in the order of k:
// a row is loaded once for R windows. The last n % W elements are taken with the vector that ends
// at n. Its other lanes repeat sums of the loop, from the same operands, so it may store them
// again; its old values are loaded before.
template <class Elem, int K, int R>
inline void add_head(const RowSums<R>& acc, const float* w, int64_t w_stride, int64_t w_window,
                     const HeadRows<Elem>& rows, const typename Elem::Type* next, int64_t n) {
  if (n < W) {
    for (int64_t d = 0; d < n; ++d) {
      for (int k = 0; k < K; ++k) {
        const float x = rows.at1(k, d);
        for (int r = 0; r < R; ++r) acc.row[r][d] += w[k * w_stride + r * w_window] * x;
      }
    }
    return;
  }
  V weight[K][R], last[R];
  for (int k = 0; k < K; ++k)
    for (int r = 0; r < R; ++r) weight[k][r] = set1(w[k * w_stride + r * w_window]);
  for (int r = 0; r < R; ++r) last[r] = load(acc.row[r] + n - W);
  auto add = [&](V(&sum)[R], int64_t d) {
    for (int k = 0; k < K; ++k) {
      const V x = load_next<Elem, K>(rows, k, d, next);
      for (int r = 0; r < R; ++r) sum[r] = fma(weight[k][r], x, sum[r]);
    }
    for (int r = 0; r < R; ++r) store(acc.row[r] + d, sum[r]);
  };
  int64_t d = 0;
  for (; d + W <= n; d += W) {
    V sum[R];
    for (int r = 0; r < R; ++r) sum[r] = load(acc.row[r] + d);
    add(sum, d);
  }
  if (d < n) add(last, n - W);
}

// add_rows() for neighbouring heads. A function of its own, as dot_heads() is: in a larger one the
// pointers of its inner loop would not stay in registers.
template <class Elem, int K, int R>
[[gnu::noinline]] void add_heads(const RowSums<R>& acc, const float* w, int64_t w_stride,
                                 int64_t w_window, const HeadRows<Elem>& rows,
                                 const typename Elem::Type* next, int64_t heads, int64_t n) {
  for (int64_t h = 0; h < heads; ++h)
    add_head<Elem, K, R>(acc.head(h * n), w + h, w_stride, w_window, rows.head(h * n),
                         next + h * K * n, n);
}

// acc[k * acc_stride + r * acc_window + lane] += partial sums of row k times y_r over n elements,
// k < K, r < R: lane by lane, so that a sum over many windows needs one horizontal step, at its
// end.
template <class Elem, int K, int R>
inline void dot_head(float* acc, int64_t acc_stride, int64_t acc_window, const HeadRows<Elem>& rows,
                     const typename Elem::Type* next, const HeadRows<Elem>& y, int64_t n) {
  auto at = [&](int k, int r) { return acc + k * acc_stride + r * acc_window; };
  if (n < W) {
    for (int k = 0; k < K; ++k) {
      for (int r = 0; r < R; ++r) {
        float sum = 0.0f;
        for (int64_t d = 0; d < n; ++d) sum += rows.at1(k, d) * y.at1(r, d);
        *at(k, r) += sum;
      }
    }
    return;
  }
  // One lane would take the terms of all windows one after the other: those of a row are summed
  // apart.
  constexpr bool kApart = W == 1;
  V sum[K][R];
  for (int k = 0; k < K; ++k)
    for (int r = 0; r < R; ++r) sum[k][r] = kApart ? zero() : load(at(k, r));
  int64_t d = 0;
  for (; d + W <= n; d += W) {
    V factor[R];
    for (int r = 0; r < R; ++r) factor[r] = y.at(r, d);
    for (int k = 0; k < K; ++k) {
      const V x = load_next<Elem, K>(rows, k, d, next);
      for (int r = 0; r < R; ++r) sum[k][r] = fma(x, factor[r], sum[k][r]);
    }
  }
  if (d < n) {
    // The vector that ends at n: lanes the loop has counted are cleared in both factors, because
    // zero times infinity is not zero.
    const V counted = set1(static_cast<float>(d - (n - W)));
    auto rest = [&](V x) { return where_lt(iota(), counted, zero(), x); };
    for (int r = 0; r < R; ++r) {
      const V factor = rest(y.at(r, n - W));
      for (int k = 0; k < K; ++k) sum[k][r] = fma(rest(rows.at(k, n - W)), factor, sum[k][r]);
    }
  }
  for (int k = 0; k < K; ++k) {
    for (int r = 0; r < R; ++r)
      store(at(k, r), kApart ? add(load(at(k, r)), sum[k][r]) : sum[k][r]);
  }
}

// dot_rows() for neighbouring heads, whose sums are next to each other.
template <class Elem, int K, int R>
[[gnu::noinline]] void dot_heads(float* acc, int64_t acc_stride, int64_t acc_window,
                                 const HeadRows<Elem>& rows, const typename Elem::Type* next,
                                 const HeadRows<Elem>& y, int64_t heads, int64_t n) {
  for (int64_t h = 0; h < heads; ++h)
    dot_head<Elem, K, R>(acc + h * W, acc_stride, acc_window, rows.head(h * n), next + h * K * n,
                         y.head(h * n), n);
}

// Last segment with first(segment) <= n. Empty segments share their first element with the next
// one, which comes later and is taken.
template <class First>
inline int64_t segment_of(const CompressPlan& plan, int64_t n, First first) {
  int64_t lo = 0, hi = plan.num_segments - 1;
  while (lo < hi) {
    const int64_t middle = (lo + hi + 1) / 2;
    if (first(plan.segments[middle]) <= n) {
      lo = middle;
    } else {
      hi = middle - 1;
    }
  }
  return lo;
}

// A step of a walk: tokens [token, token + kCompressTokens) of a segment and the windows [begin,
// end), numbered in the segment, that hold some of them.
struct CompressStep {
  const CompressSegment& seg;
  int64_t token, begin, end;
  int64_t block_size, stride;

  // Window i covers count(i) tokens from token first(i) of the segment on.
  int64_t first(int64_t i) const { return max64(token, i * stride); }
  int64_t count(int64_t i) const {
    return min64(token + kCompressTokens, i * stride + block_size) - first(i);
  }
  // Windows from i on that hold the same tokens of the step, at most 2.
  int64_t alike(int64_t i) const {
    return i + 1 < end && first(i) == first(i + 1) && count(i) == count(i + 1) ? 2 : 1;
  }
  bool starts(int64_t i) const { return i * stride >= token; }
  bool ends(int64_t i) const { return i * stride + block_size <= token + kCompressTokens; }
};

// Where the memory is that the run of `tokens` tokens from `token` on prefetches, at head h: a run
// of the same shape, so that all heads' runs prefetch whole tokens, in the order of memory, which
// is what the processor's own prefetch follows. `ahead`: prefetch_distance(), or 0 for itself.
inline int64_t next_run(const NsaCompressParams& p, int64_t distance, int64_t token, int64_t tokens,
                        int64_t h) {
  const int64_t later = min64(distance, p.T - token - tokens), row = p.N * p.D;
  return later <= 0 ? token * row + h * p.D : (token + later) * row + h * tokens * p.D;
}

// Far enough to cover the latency of memory, in a small share of the second-level cache, where the
// lines wait.
inline int64_t prefetch_distance(const NsaCompressParams& p) {
  constexpr int64_t kBytes = 32 * 1024;
  return max64(kCompressTokens, kBytes / max64(1, p.N * p.D * elem_size(p.dtype)));
}

// Calls visit(step) for the tokens of windows [n, end) of all, in order: every token is read once,
// for all the windows that hold it.
template <class Visit>
inline void walk_windows(const CompressPlan& plan, int64_t n, int64_t end, Visit visit) {
  const int64_t l = plan.p.compress_block_size, s = plan.p.compress_stride;
  while (n < end) {
    const CompressSegment& seg = plan.segments[segment_of(
        plan, n, [](const CompressSegment& segment) { return segment.first_row; })];
    const int64_t i0 = n - seg.first_row, i1 = min64(end - seg.first_row, seg.windows);
    const int64_t last_token = (i1 - 1) * s + l;
    for (int64_t t = i0 * s; t < last_token; t += kCompressTokens) {
      const int64_t begin = t < l ? i0 : max64(i0, (t - l) / s + 1);
      visit(CompressStep{seg, t, begin, min64(i1, (t + kCompressTokens - 1) / s + 1), l, s});
    }
    n = seg.first_row + i1;
  }
}

}  // namespace
}  // namespace nsa::cpu
