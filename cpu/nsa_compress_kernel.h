// NsaCompress: one pass over the tokens, the sums of the open windows stay in cache. Its gradient
// alternates between writing some tokens of input_grad and reading the input of some windows for
// weight_grad, so that memory does both at once.
#pragma once

#include <omp.h>

#include "cpu/nsa_compress_rows.h"
#include "cpu/simd/stream.h"

namespace nsa::cpu {
namespace {

inline int64_t compress_rows_heads(const CompressPlan& plan) {
  return compress_unit_heads(plan, false, compress_open_windows(plan) * plan.p.D);
}

// Windows [n, end) of heads [h0, h1). Window i of a segment has its sums in part i % slots of a
// ring [slots, heads, D].
template <class Elem>
inline void compress_unit(const CompressPlan& plan, const float* weight, int64_t n, int64_t end,
                          int64_t h0, int64_t h1, float* ring) {
  const NsaCompressGradParams& p = plan.p;
  const int64_t slots = compress_open_windows(plan), row = p.N * p.D, width = (h1 - h0) * p.D;
  walk_windows(plan, n, end, [&](const CompressStep& step) {
    const int64_t first_slot = step.begin % slots;
    for (int64_t h = h0; h < h1; ++h) {
      prefetch_ahead<Elem>(plan, step, h);
      int64_t slot = first_slot;
      for (int64_t i = step.begin; i < step.end; ++i) {
        const int64_t t = step.first(i);
        const HeadRows rows = {p.input, (step.seg.start + t) * row + h * p.D, row};
        add_rows<Elem>(step.count(i), ring + slot * width + (h - h0) * p.D, step.starts(i),
                       weight + (t - i * p.stride) * p.N + h, p.N, rows, p.D);
        if (++slot == slots) slot = 0;
      }
    }
    for (int64_t i = step.begin; i < step.end && step.ends(i); ++i)
      from_float(p.dtype, ring + i % slots * width, width, p.output,
                 (step.seg.first_row + i) * row + h0 * p.D);
  });
}

template <class Elem>
void compress_rows(const CompressPlan& plan, const float* weight, float* threads,
                   int64_t thread_floats, int threads_count) {
  const int64_t heads = compress_rows_heads(plan), tiles = ceil_div(plan.p.N, heads);
  const int64_t windows = compress_item_windows(plan, false);
  const int64_t items = compress_items(plan, false);
#pragma omp parallel num_threads(threads_count)
  {
    float* ring = threads + omp_get_thread_num() * thread_floats;
#pragma omp for schedule(static) nowait
    for (int64_t unit = 0; unit < items * tiles; ++unit) {
      const int64_t n = unit / tiles * windows, h0 = unit % tiles * heads;
      compress_unit<Elem>(plan, weight, n, min64(n + windows, plan.windows), h0,
                          min64(h0 + heads, plan.p.N), ring);
    }
  }
}

// Tokens of a unit of work of input_grad, at most.
constexpr int64_t kInputGradTokens = 64;
// Floats of input_grad that are computed before they are written. They and the rows of output_grad
// they come from stay in the first-level cache.
constexpr int64_t kInputGradFloats = 1024;
// Bytes from which input_grad is not expected to be found in cache by its reader.
constexpr int64_t kStreamBytes = 8 << 20;

// Bytes of input that are asked for while input_grad is computed, at most: a share of the
// second-level cache.
constexpr int64_t kInputBytes = 512 << 10;

// How input_grad is shared out, and the parts of a thread's scratch in floats.
struct InputGradShape {
  int64_t tokens;    // of a unit of work
  int64_t heads;     // computed together
  int64_t batch;     // tokens written at once: several only if they are contiguous
  int64_t values;    // [batch, heads, D]
  int64_t rounded;   // the same in a 16-bit type
  int64_t gradient;  // [windows, heads, D], output_grad of a 16-bit type
};

inline InputGradShape input_grad_shape(const CompressPlan& plan) {
  const NsaCompressGradParams& p = plan.p;
  InputGradShape s{};
  s.tokens = max64(1, min64(kInputGradTokens, p.T / kCompressUnits));
  s.heads = max64(1, min64(p.N, kInputGradFloats / max64(1, p.D)));
  s.batch = max64(1, kInputGradFloats / max64(1, p.N * p.D));
  s.values = round_up(s.batch * s.heads * p.D, kLanePad);
  if (p.dtype != ElemType::kFloat32) {
    s.rounded = round_up(ceil_div(s.values, 2), kLanePad);
    // Windows start s tokens apart, at least, in a segment and from one segment to the next.
    s.gradient = ceil_div(s.tokens + p.block_size - 1, p.stride) * s.heads * p.D;
  }
  return s;
}

inline int64_t input_grad_floats(const CompressPlan& plan) {
  const InputGradShape s = input_grad_shape(plan);
  return s.values + s.rounded + s.gradient;
}

// Windows [begin, end) of all that hold a token. Both ends grow with the token.
struct TokenWindows {
  int64_t begin, end;
};

inline TokenWindows windows_of(const CompressPlan& plan, const CompressSegment& seg,
                               int64_t token) {
  const int64_t t = token - seg.start, l = plan.p.block_size, s = plan.p.stride;
  const int64_t first = t < l ? 0 : (t - l) / s + 1;
  return {seg.first_row + min64(first, seg.windows), seg.first_row + min64(t / s + 1, seg.windows)};
}

// Tokens [t0, t1) of input_grad by head tiles; `b` is the segment of t0. Quoting the forward,
// output[row(i)] += weight[j] * input[i s + j]: a token t of a segment gets
// weight[t - i s] * output_grad[row(i)] from every window i that holds it. `input_follows`: the
// input of these tokens is read next, and is asked for meanwhile.
template <class Elem>
inline void input_grad_unit(const CompressPlan& plan, const InputGradShape& shape,
                            const float* weight, int64_t t0, int64_t t1, bool streams,
                            bool input_follows, float* scratch) {
  const NsaCompressGradParams& p = plan.p;
  const int64_t row = p.N * p.D;
  float *values = scratch, *gradient = scratch + shape.values + shape.rounded;
  void* rounded = scratch + shape.values;
  auto segment_at = [&](int64_t t) {
    return segment_of(plan, t, [](const CompressSegment& segment) { return segment.start; });
  };
  const int64_t first_segment = segment_at(t0);
  const int64_t r0 = windows_of(plan, plan.segments[first_segment], t0).begin;
  const int64_t r1 = windows_of(plan, plan.segments[segment_at(t1 - 1)], t1 - 1).end;
  for (int64_t h0 = 0; h0 < p.N; h0 += shape.heads) {
    const int64_t heads = min64(shape.heads, p.N - h0), width = heads * p.D;
    // Row r of output_grad, in float, is at r * grad.stride.
    HeadRows grad = {p.output_grad, h0 * p.D, row};
    if (Elem::kType != ElemType::kFloat32) {
      for (int64_t r = r0; r < r1; ++r)
        to_float(p.dtype, p.output_grad, r * row + h0 * p.D, width, gradient + (r - r0) * width);
      grad = {gradient, -r0 * width, width};
    }
    int64_t b = first_segment;
    for (int64_t from = t0; from < t1; from += shape.batch) {
      const int64_t to = min64(from + shape.batch, t1);
      if (input_follows) prefetch_input<Elem>(plan, from, to - from, h0 * p.D, width);
      for (int64_t t = from; t < to; ++t) {
        while (t >= plan.segments[b].start + plan.segments[b].length) ++b;
        const CompressSegment& seg = plan.segments[b];
        const TokenWindows windows = windows_of(plan, seg, t);
        float* out = values + (t - from) * width;
        if (windows.begin >= windows.end) fill(out, width, 0.0f);
        for (int64_t r = windows.begin; r < windows.end; r += kCompressTokens) {
          const int64_t count = min64(kCompressTokens, windows.end - r);
          const float* w = weight + (t - seg.start - (r - seg.first_row) * p.stride) * p.N + h0;
          for (int64_t h = 0; h < heads; ++h) {
            const HeadRows rows = {grad.data, grad.at + r * grad.stride + h * p.D, grad.stride};
            add_rows<FloatElem>(count, out + h * p.D, r == windows.begin, w + h, -p.stride * p.N,
                                rows, p.D);
          }
        }
      }
      const int64_t at = from * row + h0 * p.D, count = (to - from) * width;
      if (!streams) {
        from_float(p.dtype, values, count, p.input_grad, at);
        continue;
      }
      if (Elem::kType != ElemType::kFloat32) from_float(p.dtype, values, count, rounded, 0);
      stream_copy(static_cast<char*>(p.input_grad) + at * elem_size(p.dtype),
                  static_cast<const char*>(Elem::kType == ElemType::kFloat32 ? values : rounded),
                  count * elem_size(p.dtype));
    }
  }
}

inline int64_t weight_grad_heads(const CompressPlan& plan) {
  return compress_unit_heads(plan, true, plan.p.block_size * kLanePad);
}

inline int64_t weight_grad_floats(const CompressPlan& plan) {
  return plan.p.block_size * weight_grad_heads(plan) * kLanePad;
}

// partial[j, h] = sum over the windows [n, end) and d of input[i s + j, h, d] output_grad[i, h, d],
// for h in [h0, h1).
template <class Elem>
inline void weight_grad_unit(const CompressPlan& plan, int64_t n, int64_t end, int64_t h0,
                             int64_t h1, float* lanes, float* partial) {
  const NsaCompressGradParams& p = plan.p;
  const int64_t row = p.N * p.D, ld = (h1 - h0) * W;  // lanes is [l, heads, W]
  fill(lanes, p.block_size * ld, 0.0f);
  walk_windows(plan, n, end, [&](const CompressStep& step) {
    for (int64_t h = h0; h < h1; ++h) {
      prefetch_ahead<Elem>(plan, step, h);
      for (int64_t i = step.begin; i < step.end; ++i) {
        const int64_t t = step.first(i);
        const HeadRows rows = {p.input, (step.seg.start + t) * row + h * p.D, row};
        add_dots<Elem>(step.count(i), lanes + (t - i * p.stride) * ld + (h - h0) * W, ld, rows,
                       p.output_grad, (step.seg.first_row + i) * row + h * p.D, p.D);
      }
    }
  });
  for (int64_t j = 0; j < p.block_size; ++j) {
    for (int64_t h = h0; h < h1; ++h)
      partial[j * p.N + h] = hsum(load(lanes + j * ld + (h - h0) * W));
  }
}

// A unit is an item's share of a tile of heads; it fills their columns of the item's partial [l,
// N].
template <class Elem>
inline void weight_grad_item(const CompressPlan& plan, int64_t unit, float* lanes, float* partial) {
  const int64_t heads = weight_grad_heads(plan), tiles = ceil_div(plan.p.N, heads);
  const int64_t windows = compress_item_windows(plan, true), item = unit / tiles;
  const int64_t h0 = unit % tiles * heads;
  weight_grad_unit<Elem>(plan, item * windows, min64((item + 1) * windows, plan.windows), h0,
                         min64(h0 + heads, plan.p.N), lanes,
                         partial + item * plan.p.block_size * plan.p.N);
}

// Both gradients in one loop: a share is a run of tokens, whose input_grad it writes, and the units
// of weight_grad at the same place in the batch, whose input it reads. Partials are added up in the
// order of items.
template <class Elem>
void compress_grad(const CompressPlan& plan, const float* weight, float* partial, float* threads,
                   int64_t thread_floats, int threads_count) {
  const NsaCompressGradParams& p = plan.p;
  const int64_t items = compress_items(plan, true);
  const int64_t units = items * ceil_div(p.N, weight_grad_heads(plan));
  const InputGradShape shape = input_grad_shape(plan);
  const int64_t shares = max64(1, max64(units, ceil_div(p.T, shape.tokens)));
  const int64_t bytes = p.T * p.N * p.D * elem_size(p.dtype);
  const bool streams = bytes >= kStreamBytes;
  const bool input_follows = units == items && shares == items && bytes / shares <= kInputBytes;
#pragma omp parallel num_threads(threads_count)
  {
    float* scratch = threads + omp_get_thread_num() * thread_floats;
#pragma omp for schedule(static)
    for (int64_t k = 0; k < shares; ++k) {
      const int64_t t1 = (k + 1) * p.T / shares;
      for (int64_t t = k * p.T / shares; t < t1; t += shape.tokens)
        input_grad_unit<Elem>(plan, shape, weight, t, min64(t + shape.tokens, t1), streams,
                              input_follows, scratch);
      for (int64_t unit = k * units / shares; unit < (k + 1) * units / shares; ++unit)
        weight_grad_item<Elem>(plan, unit, scratch, partial);
    }
    if (streams) stream_fence();
#pragma omp for schedule(static) nowait
    for (int64_t n = 0; n < p.block_size * p.N; ++n) {
      double sum = 0;
      for (int64_t item = 0; item < items; ++item) sum += partial[item * p.block_size * p.N + n];
      store1(p.dtype, p.weight_grad, n, static_cast<float>(sum));
    }
  }
}

// Scratch of one thread, a whole number of cache lines.
int64_t compress_thread_floats(const CompressPlan& plan, bool grad) {
  const int64_t floats = grad ? max64(input_grad_floats(plan), weight_grad_floats(plan))
                              : compress_open_windows(plan) * compress_rows_heads(plan) * plan.p.D;
  return round_up(floats, kLanePad);
}

template <class Elem>
inline void compress_for(const CompressPlan& plan, bool grad, float* weight, float* threads,
                         float* partial, int threads_count) {
  const int64_t floats = compress_thread_floats(plan, grad);
  to_float(plan.p.dtype, plan.p.weight, 0, plan.p.block_size * plan.p.N, weight);
  if (!grad) return compress_rows<Elem>(plan, weight, threads, floats, threads_count);
  compress_grad<Elem>(plan, weight, partial, threads, floats, threads_count);
}

void compress(const CompressPlan& plan, bool grad, float* weight, float* threads, float* partial,
              int threads_count) {
  switch (plan.p.dtype) {
    case ElemType::kFloat32:
      return compress_for<FloatElem>(plan, grad, weight, threads, partial, threads_count);
    case ElemType::kFloat16:
      return compress_for<HalfElem>(plan, grad, weight, threads, partial, threads_count);
    case ElemType::kBFloat16:
      return compress_for<BFloat16Elem>(plan, grad, weight, threads, partial, threads_count);
  }
}

}  // namespace
}  // namespace nsa::cpu
