// What NsaCompress and its gradients share: sums over a few rows of one head, and the walk over the
// tokens of neighbouring windows.
#pragma once

#include "cpu/nsa_compress_plan.h"
#include "cpu/simd/vec_math.h"

namespace nsa::cpu {
namespace {

struct FloatElem {
  static constexpr ElemType kType = ElemType::kFloat32;
  static V load(const void* p, int64_t i) {
    return nsa::cpu::load(static_cast<const float*>(p) + i);
  }
};
struct HalfElem {
  static constexpr ElemType kType = ElemType::kFloat16;
  static V load(const void* p, int64_t i) { return load_f16(static_cast<const uint16_t*>(p) + i); }
};
struct BFloat16Elem {
  static constexpr ElemType kType = ElemType::kBFloat16;
  static V load(const void* p, int64_t i) { return load_bf16(static_cast<const uint16_t*>(p) + i); }
};

// Rows of one head: element d of row k is data[at + k * stride + d].
struct HeadRows {
  const void* data;
  int64_t at, stride;
};

// acc[0..n) (zero if `first`) += sum over k < K of w[k * w_stride] * row k, in the order of k.
// The last n % W elements are taken with the vector that ends at n. Its other lanes repeat sums of
// the loop, from the same operands, so it may store them again; its old values are loaded before.
template <class Elem, int K>
inline void add_rows(float* acc, bool first, const float* w, int64_t w_stride, const HeadRows& rows,
                     int64_t n) {
  if (n < W) {
    for (int64_t d = 0; d < n; ++d) {
      float sum = first ? 0.0f : acc[d];
      for (int k = 0; k < K; ++k)
        sum += w[k * w_stride] * load1(Elem::kType, rows.data, rows.at + k * rows.stride + d);
      acc[d] = sum;
    }
    return;
  }
  V weight[K];
  for (int k = 0; k < K; ++k) weight[k] = set1(w[k * w_stride]);
  auto add = [&](V sum, int64_t d) {
    for (int k = 0; k < K; ++k)
      sum = fma(weight[k], Elem::load(rows.data, rows.at + k * rows.stride + d), sum);
    return sum;
  };
  const V last = first ? zero() : load(acc + n - W);
  int64_t d = 0;
  if (first) {
    for (; d + W <= n; d += W) store(acc + d, add(zero(), d));
  } else {
    for (; d + W <= n; d += W) store(acc + d, add(load(acc + d), d));
  }
  if (d < n) store(acc + n - W, add(last, n - W));
}

// acc[k * acc_stride + lane] += partial sums of row k * y over n elements, k < K: lane by lane, so
// that a sum over many windows needs one horizontal step, at its end.
template <class Elem, int K>
inline void add_dots(float* acc, int64_t acc_stride, const HeadRows& rows, const void* y,
                     int64_t y_at, int64_t n) {
  if (n < W) {
    for (int k = 0; k < K; ++k) {
      float sum = 0.0f;
      for (int64_t d = 0; d < n; ++d)
        sum += load1(Elem::kType, rows.data, rows.at + k * rows.stride + d) *
               load1(Elem::kType, y, y_at + d);
      acc[k * acc_stride] += sum;
    }
    return;
  }
  V sum[K];
  for (int k = 0; k < K; ++k) sum[k] = load(acc + k * acc_stride);
  int64_t d = 0;
  for (; d + W <= n; d += W) {
    const V factor = Elem::load(y, y_at + d);
    for (int k = 0; k < K; ++k)
      sum[k] = fma(Elem::load(rows.data, rows.at + k * rows.stride + d), factor, sum[k]);
  }
  if (d < n) {
    // The vector that ends at n: lanes the loop has counted are cleared in both factors, because
    // zero times infinity is not zero.
    const V counted = set1(static_cast<float>(d - (n - W)));
    const V factor = where_lt(iota(), counted, zero(), Elem::load(y, y_at + n - W));
    for (int k = 0; k < K; ++k) {
      const V x = Elem::load(rows.data, rows.at + k * rows.stride + n - W);
      sum[k] = fma(where_lt(iota(), counted, zero(), x), factor, sum[k]);
    }
  }
  for (int k = 0; k < K; ++k) store(acc + k * acc_stride, sum[k]);
}

// The same for a number of rows that is known only at run time, 1 to K.
template <class Elem, int K = kCompressTokens>
inline void add_rows(int64_t count, float* acc, bool first, const float* w, int64_t w_stride,
                     const HeadRows& rows, int64_t n) {
  if (count == K) return add_rows<Elem, K>(acc, first, w, w_stride, rows, n);
  if constexpr (K > 1) add_rows<Elem, K - 1>(count, acc, first, w, w_stride, rows, n);
}

template <class Elem, int K = kCompressTokens>
inline void add_dots(int64_t count, float* acc, int64_t acc_stride, const HeadRows& rows,
                     const void* y, int64_t y_at, int64_t n) {
  if (count == K) return add_dots<Elem, K>(acc, acc_stride, rows, y, y_at, n);
  if constexpr (K > 1) add_dots<Elem, K - 1>(count, acc, acc_stride, rows, y, y_at, n);
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

  // The part of window i: count tokens, from `first` of the segment on.
  int64_t first(int64_t i) const { return max64(token, i * stride); }
  int64_t count(int64_t i) const {
    return min64(token + kCompressTokens, i * stride + block_size) - first(i);
  }
  bool starts(int64_t i) const { return i * stride >= token; }
  bool ends(int64_t i) const { return i * stride + block_size <= token + kCompressTokens; }
};

// Asks for elements [at, at + width) of `count` rows of the input. Inlined by force: gcc drops
// calls of a function that only prefetches, as without effect.
template <class Elem>
[[gnu::always_inline]] inline void prefetch_input(const CompressPlan& plan, int64_t token,
                                                  int64_t count, int64_t at, int64_t width) {
  constexpr int64_t kLine = 64, kSize = elem_size(Elem::kType);
  const char* data = static_cast<const char*>(plan.p.input) + at * kSize;
  for (int64_t k = 0; k < count; ++k) {
    const char* row = data + (token + k) * plan.p.N * plan.p.D * kSize;
    for (int64_t i = 0; i < width * kSize; i += kLine) __builtin_prefetch(row + i, 0, 2);
  }
}

// Asks for head h of a later step's tokens. Rows are strided, which the processor's own prefetch
// follows badly where they are short; where they are long it does well. As far ahead as a small
// part of the second-level cache, where the lines wait: less does not cover the latency of memory.
template <class Elem>
[[gnu::always_inline]] inline void prefetch_ahead(const CompressPlan& plan,
                                                  const CompressStep& step, int64_t h) {
  constexpr int64_t kMostBytes = 64 * 1024, kAhead = 128 * 1024, kMostSteps = 64;
  const int64_t row = plan.p.N * plan.p.D * elem_size(Elem::kType);
  if (kCompressTokens * row > kMostBytes) return;
  const int64_t steps = min64(kMostSteps, kAhead / (kCompressTokens * row));
  const int64_t token = step.seg.start + step.token + steps * kCompressTokens;
  prefetch_input<Elem>(plan, token, min64(kCompressTokens, plan.p.T - token), h * plan.p.D,
                       plan.p.D);
}

// Calls visit(step) for the tokens of windows [n, end) of all, in order: every token is read once,
// for all the windows that hold it.
template <class Visit>
inline void walk_windows(const CompressPlan& plan, int64_t n, int64_t end, Visit visit) {
  const int64_t l = plan.p.block_size, s = plan.p.stride;
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
