// NsaCompress: one pass over the tokens, the sums of the open windows stay in cache.
#pragma once

#include <omp.h>

#include "cpu/nsa_compress_grad_kernel.h"
#include "cpu/nsa_compress_rows.h"

namespace nsa::cpu {
namespace {

inline int64_t compress_rows_heads(const CompressPlan& plan) {
  return compress_unit_heads(plan, compress_open_windows(plan) * plan.p.D);
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
  const int64_t windows = compress_item_windows(plan), items = compress_items(plan);
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
