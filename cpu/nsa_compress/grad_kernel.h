// The gradients of NsaCompress: one pass over the tokens, the sums for weight_grad stay in cache.
#pragma once

#include "cpu/engine/simd/stream.h"
#include "cpu/engine/threads/team.h"
#include "cpu/nsa_compress/rows.h"

namespace nsa::cpu {
namespace {

// Floats of input_grad that wait to be written, at most, unless one token of one head has more.
// They and the rows of output_grad they come from stay in the first-level cache.
constexpr int64_t kGradFloats = 2048;
// Bytes from which input_grad is not expected to be found in cache by its reader.
constexpr int64_t kStreamBytes = 8 << 20;
// Tokens that are computed together: sums of two windows each fit into 16 registers.
constexpr int kGradTokens = 4;

// How a work item of the gradient, an item's share of a tile of heads, goes about its work.
struct GradShape {
  int64_t work_item_heads;  // of a work item
  int64_t tokens;           // taken through all heads of a work item before the next ones
  int64_t heads;            // whose input_grad is written at once
  int64_t lanes;            // floats of the sums for weight_grad, [l, work_item_heads, W]
  int64_t staged;           // floats of input_grad that wait to be written
  bool streams;
};

inline GradShape grad_shape(const CompressPlan& plan) {
  const NsaCompressParams& p = plan.p;
  GradShape s{};
  s.work_item_heads =
      compress_work_item_heads(plan, compress_grad_items(plan), p.compress_block_size * kLanePad);
  s.heads = max64(1, min64(s.work_item_heads, kGradFloats / max64(1, kGradTokens * p.D)));
  s.tokens = max64(1, kGradFloats / max64(1, s.heads * p.D) / kGradTokens) * kGradTokens;
  s.lanes = p.compress_block_size * s.work_item_heads * kLanePad;
  s.streams = p.T * p.N * p.D * elem_size(p.dtype) >= kStreamBytes;
  if (s.streams) s.staged = s.tokens * s.heads * p.D;
  return s;
}

// Windows of a segment that hold token t of it.
struct TokenWindows {
  int64_t begin, end;
};

inline TokenWindows windows_of(const CompressPlan& plan, const CompressSegment& seg, int64_t t) {
  const int64_t l = plan.p.compress_block_size, s = plan.p.compress_stride;
  return {min64(t < l ? 0 : (t - l) / s + 1, seg.windows), min64(t / s + 1, seg.windows)};
}

// A run of K tokens of a segment, from t on, and the windows [begin, end) that hold some of them.
// Windows [all_begin, all_end) hold all of them.
template <int K>
struct GradRun {
  int64_t t, begin, end, all_begin, all_end;
  int64_t block_size, stride;

  GradRun(const CompressPlan& plan, const CompressSegment& seg, int64_t token)
      : t(token), block_size(plan.p.compress_block_size), stride(plan.p.compress_stride) {
    const TokenWindows first = windows_of(plan, seg, t), last = windows_of(plan, seg, t + K - 1);
    begin = first.begin;
    end = last.end;
    all_begin = min64(last.begin, first.end);
    all_end = first.end;
  }

  // Tokens [from(i), to(i)) of the run are in window i.
  int64_t from(int64_t i) const { return max64(0, i * stride - t); }
  int64_t to(int64_t i) const { return min64(K, i * stride + block_size - t); }

  // Calls f(i) for the other windows.
  template <class F>
  void for_partial(F f) const {
    for (int64_t i = begin; i < all_begin; ++i) f(i);
    for (int64_t i = all_end; i < end; ++i) f(i);
  }
};

// Row m of out, [0..n), becomes input_grad of token m of the run: the sum over the windows i that
// hold it of weight[(t + m - i s) * w_stride] * y_i, those of all tokens first. A row of y is
// loaded once for K tokens. R of the windows of all tokens have their weights in registers.
template <class Elem, int K, int R>
inline void mix_head(const GradRun<K>& run, typename Elem::Type* out, int64_t out_stride,
                     const float* weight, int64_t w_stride, const HeadRows<Elem>& y, int64_t n) {
  // Weights of window i; its token m is m * w_stride further.
  auto w = [&](int64_t i) { return weight + (run.t - i * run.stride) * w_stride; };
  if (n < W) {
    for (int m = 0; m < K; ++m) {
      for (int64_t d = 0; d < n; ++d) {
        float sum = 0.0f;
        for (int64_t i = run.begin; i < run.end; ++i)
          if (m >= run.from(i) && m < run.to(i)) sum += w(i)[m * w_stride] * y.at1(i, d);
        store1(Elem::kType, out, m * out_stride + d, sum);
      }
    }
    return;
  }
  const int64_t rest = run.all_begin + R;
  const bool more = rest < run.all_end || run.begin < run.all_begin || run.all_end < run.end;
  V first[R][K];
  for (int r = 0; r < R; ++r)
    for (int m = 0; m < K; ++m) first[r][m] = set1(w(run.all_begin + r)[m * w_stride]);
  for (int64_t from = 0; from < n; from += W) {
    const int64_t d = min64(from, n - W);  // the last vector ends at n, and repeats some lanes
    V sum[K];
    for (int m = 0; m < K; ++m) sum[m] = zero();
    for (int r = 0; r < R; ++r) {
      const V x = y.at(run.all_begin + r, d);
      for (int m = 0; m < K; ++m) sum[m] = fma(first[r][m], x, sum[m]);
    }
    if (more) {
      for (int64_t i = rest; i < run.all_end; ++i) {
        const V x = y.at(i, d);
        for (int m = 0; m < K; ++m) sum[m] = fma(set1(w(i)[m * w_stride]), x, sum[m]);
      }
      run.for_partial([&](int64_t i) {
        const V x = y.at(i, d);
        for (int m = 0; m < K; ++m)
          if (m >= run.from(i) && m < run.to(i)) sum[m] = fma(set1(w(i)[m * w_stride]), x, sum[m]);
      });
    }
    for (int m = 0; m < K; ++m) Elem::store(out + m * out_stride + d, sum[m]);
  }
}

template <class Elem, int K, int R>
[[gnu::noinline]] void mix_heads(const GradRun<K>& run, typename Elem::Type* out,
                                 int64_t out_stride, const float* weight, int64_t w_stride,
                                 const HeadRows<Elem>& y, int64_t heads, int64_t n) {
  for (int64_t h = 0; h < heads; ++h)
    mix_head<Elem, K, R>(run, out + h * n, out_stride, weight + h, w_stride, y.head(h * n), n);
}

// lanes[(t + m - i s) * ld + h * W + lane] += partial sums of x_m * y_i of head h for every token m
// of the run and window i that holds it.
template <class Elem, int K>
inline void dot_rows(const GradRun<K>& run, float* lanes, int64_t ld, const HeadRows<Elem>& x,
                     const typename Elem::Type* next, const HeadRows<Elem>& y, int64_t heads,
                     int64_t n) {
  auto dots = [&](auto windows, auto tokens, int64_t i, int64_t m, const auto* later) {
    dot_heads<Elem, tokens, windows>(lanes + (run.t + m - i * run.stride) * ld, ld,
                                     -run.stride * ld, x.row(m), later, y.row(i), heads, n);
  };
  auto whole = [&](auto windows, int64_t i) {
    dots(windows, Constant<K>{}, run.all_begin + i, 0, i == 0 ? next : x.data);
  };
  // Windows less than K apart have places in common.
  if (run.stride >= K) {
    in_runs<2>(run.all_end - run.all_begin, whole);
  } else {
    in_runs<1>(run.all_end - run.all_begin, whole);
  }
  run.for_partial([&](int64_t i) {
    in_runs<K>(run.to(i) - run.from(i), [&](auto tokens, int64_t m) {
      dots(Constant<1>{}, tokens, i, run.from(i) + m, x.data);
    });
  });
}

// Quoting the forward, output[i] += weight[j] * input[i s + j] for window i of a segment: token t
// takes part in window i at j = t - i s, so
//
//   input_grad[t] += weight[j] * output_grad[i]
//   weight_grad[j] += input[t] . output_grad[i]
//
// A work item computes both for tokens [t0, t1) and heads [h0, h1), a few tokens at a time, so that
// memory is read and written all the while.
template <class Elem>
struct GradWorkItem {
  using Type = typename Elem::Type;

  const CompressGradPlan& plan;
  const GradShape& shape;
  const float* weight;  // [l, N]
  int64_t t0, t1, h0, h1;
  float* lanes;  // [l, h1 - h0, W] sums for weight_grad
  Type* staged;  // input_grad that waits to be written

  int64_t row() const { return plan.p.N * plan.p.D; }

  // K tokens from t on, of heads [g0, g1). Their input_grad goes to out, rows of out_stride.
  template <int K>
  void run(const CompressSegment& seg, int64_t t, int64_t g0, int64_t g1, int64_t distance,
           Type* out, int64_t out_stride) const {
    const NsaCompressParams& p = plan.p;
    const Type* input = static_cast<const Type*>(p.input);
    const auto* output_grad = static_cast<const Type*>(plan.output_grad) + seg.first_row * row();
    const GradRun<K> run(plan, seg, t - seg.start);
    const HeadRows<Elem> y = {output_grad + g0 * p.D, row()};
    at_most_two(run.all_end - run.all_begin, [&](auto windows) {
      mix_heads<Elem, K, windows>(run, out, out_stride, weight + g0, p.N, y, g1 - g0, p.D);
    });
    dot_rows<Elem, K>(run, lanes + (g0 - h0) * W, (h1 - h0) * W,
                      {input + t * row() + g0 * p.D, row()},
                      input + next_run(p, distance, t, K, g0), y, g1 - g0, p.D);
  }

  // Tokens [from, to) of heads [g0, g1); token `from` is in segment b. Gives the segment of the
  // last one.
  int64_t tokens(int64_t from, int64_t to, int64_t g0, int64_t g1, int64_t b, Type* out,
                 int64_t out_stride) const {
    const int64_t distance = h1 - h0 == plan.p.N ? prefetch_distance(plan.p) : 0;
    for (int64_t token = from, next; token < to; token = next) {
      while (token >= plan.segments[b].start + plan.segments[b].length) ++b;
      const CompressSegment& seg = plan.segments[b];
      // Runs begin at whole numbers of them in a segment: windows then seldom start within one.
      const int64_t left = kGradTokens - (token - seg.start) % kGradTokens;
      next = min64(token + left, min64(to, seg.start + seg.length));
      in_runs<kGradTokens>(next - token, [&](auto size, int64_t k) {
        const int64_t t = token + k;
        run<size>(seg, t, g0, g1, distance, out + (t - from) * out_stride, out_stride);
      });
    }
    return b;
  }

  void write_staged(int64_t from, int64_t to, int64_t g0, int64_t g1) const {
    Type* input_grad = static_cast<Type*>(plan.input_grad);
    const int64_t width = (g1 - g0) * plan.p.D;
    const bool whole = width == row();
    const int64_t rows = whole ? 1 : to - from, count = whole ? (to - from) * row() : width;
    for (int64_t k = 0; k < rows; ++k)
      stream_copy(reinterpret_cast<char*>(input_grad + (from + k) * row() + g0 * plan.p.D),
                  reinterpret_cast<const char*>(staged + k * count),
                  count * elem_size(Elem::kType));
  }

  // partial [l, N]: what the tokens add to weight_grad.
  void run(float* partial) const {
    const NsaCompressParams& p = plan.p;
    Type* input_grad = static_cast<Type*>(plan.input_grad);
    const int64_t ld = (h1 - h0) * W;
    fill(lanes, p.compress_block_size * ld, 0.0f);
    int64_t b = segment_of(plan, t0, [](const CompressSegment& segment) { return segment.start; });
    for (int64_t from = t0; from < t1; from += shape.tokens) {
      const int64_t to = min64(from + shape.tokens, t1);
      int64_t last = b;
      for (int64_t g0 = h0; g0 < h1; g0 += shape.heads) {
        const int64_t g1 = min64(g0 + shape.heads, h1);
        if (shape.streams) {
          last = tokens(from, to, g0, g1, b, staged, (g1 - g0) * p.D);
          write_staged(from, to, g0, g1);
        } else {
          last = tokens(from, to, g0, g1, b, input_grad + from * row() + g0 * p.D, row());
        }
      }
      b = last;
    }
    for (int64_t j = 0; j < p.compress_block_size; ++j) {
      for (int64_t h = h0; h < h1; ++h)
        partial[j * p.N + h] = hsum(load(lanes + j * ld + (h - h0) * W));
    }
  }
};

// Partials are added up in the order of items.
template <class Elem>
void compress_grad_work_items(const CompressGradPlan& plan, const CompressScratch& scratch,
                              float* partial, int threads) {
  const NsaCompressParams& p = plan.p;
  const GradShape shape = grad_shape(plan);
  const int64_t items = compress_grad_items(plan), tokens = compress_item_tokens(plan);
  const int64_t tiles = ceil_div(p.N, shape.work_item_heads);
  parallel_region(threads, [&](const Member& member) {
    float* lanes = scratch.of(member.number);
    auto* staged = reinterpret_cast<typename Elem::Type*>(lanes + shape.lanes);
    member.static_for(items * tiles, [&](int64_t work_item) {
      const int64_t item = work_item / tiles, t0 = item * tokens,
                    h0 = work_item % tiles * shape.work_item_heads;
      const GradWorkItem<Elem> work{plan,
                                    shape,
                                    scratch.weight,
                                    t0,
                                    min64(t0 + tokens, p.T),
                                    h0,
                                    min64(h0 + shape.work_item_heads, p.N),
                                    lanes,
                                    staged};
      work.run(partial + item * p.compress_block_size * p.N);
    });
    member.barrier();
    if (shape.streams) stream_fence();
    member.static_for(p.compress_block_size * p.N, [&](int64_t n) {
      double sum = 0;
      for (int64_t item = 0; item < items; ++item)
        sum += partial[item * p.compress_block_size * p.N + n];
      store1(p.dtype, plan.weight_grad, n, static_cast<float>(sum));
    });
  });
}

// Bytes of one thread's scratch.
int64_t compress_grad_thread_size(const CompressPlan& plan) {
  const GradShape shape = grad_shape(plan);
  return (shape.lanes + shape.staged) * 4;
}

void compress_grad(const CompressGradPlan& plan, const CompressScratch& scratch, float* partial,
                   int threads) {
  load_weight(plan, scratch.weight);
  with_elem(plan.p.dtype, [&](auto elem) {
    compress_grad_work_items<decltype(elem)>(plan, scratch, partial, threads);
  });
}

}  // namespace
}  // namespace nsa::cpu
