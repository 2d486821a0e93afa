// NsaCompress: one pass over the tokens, the sums of the open windows stay in cache.
#pragma once

#include "cpu/engine/simd/stream.h"
#include "cpu/engine/threads/team.h"
#include "cpu/nsa_compress/rows.h"

namespace nsa::cpu {
namespace {

inline int64_t compress_rows_heads(const CompressPlan& plan) {
  return compress_work_item_heads(plan, compress_items(plan),
                                  compress_open_windows(plan) * plan.p.D);
}

// Floats of a step that are taken together: all its windows find them in the first-level cache.
constexpr int64_t kStepFloats = 4096;

// Bytes of input that drive the rows written before them out of the caches.
constexpr int64_t kEvictingBytes = 32 << 20;

inline bool compress_rows_stream(const CompressPlan& plan) {
  return plan.p.dtype == ElemType::kFloat32 && plan.p.T * plan.p.N * plan.p.D * 4 >= kEvictingBytes;
}

// Windows [n, end) of heads [h0, h1). Window i of a segment has its sums in slot i % slots of a
// ring [slots, heads, D].
template <class Elem>
inline void compress_work_item(const CompressPlan& plan, const float* weight, int64_t n,
                               int64_t end, int64_t h0, int64_t h1, float* ring) {
  const NsaCompressParams& p = plan.p;
  const auto* input = static_cast<const typename Elem::Type*>(p.input);
  const int64_t slots = compress_open_windows(plan), row = p.N * p.D, width = (h1 - h0) * p.D;
  const int64_t distance = h1 - h0 == p.N ? prefetch_distance(p) : 0;
  const int64_t most = max64(1, kStepFloats / max64(1, kCompressTokens * p.D));
  const bool streams = compress_rows_stream(plan);
  auto after = [&](int64_t slot) { return slot + 1 == slots ? 0 : slot + 1; };
  walk_windows(plan, n, end, [&](const CompressStep& step) {
    const int64_t first_slot = step.begin % slots;
    for (int64_t i = step.begin, slot = first_slot; i < step.end; ++i, slot = after(slot))
      if (step.starts(i)) fill(ring + slot * width, width, 0.0f);
    for (int64_t g0 = h0; g0 < h1; g0 += most) {
      const int64_t heads = min64(most, h1 - g0);
      float* sums = ring + (g0 - h0) * p.D;
      int64_t alike;
      for (int64_t i = step.begin, slot = first_slot; i < step.end; i += alike) {
        alike = step.alike(i);
        const int64_t first = step.first(i), second = after(slot);
        const int64_t later = i == step.begin ? distance : 0;
        in_runs<kRows<Elem>>(step.count(i), [&](auto size, int64_t k) {
          const int64_t t = step.seg.start + first + k;
          const HeadRows<Elem> rows = {input + t * row + g0 * p.D, row};
          const float* w = weight + (first + k - i * p.compress_stride) * p.N + g0;
          const auto* next = input + next_run(p, later, t, size, g0);
          if (alike == 2) {
            add_heads<Elem, size, 2>({{sums + slot * width, sums + second * width}}, w, p.N,
                                     -p.compress_stride * p.N, rows, next, heads, p.D);
          } else {
            add_heads<Elem, size, 1>({{sums + slot * width}}, w, p.N, 0, rows, next, heads, p.D);
          }
        });
        slot = alike == 2 ? after(second) : second;
      }
    }
    for (int64_t i = step.begin; i < step.end && step.ends(i); ++i) {
      const float* done = ring + i % slots * width;
      const int64_t at = (step.seg.first_row + i) * row + h0 * p.D;
      if (streams) {
        stream_copy(reinterpret_cast<char*>(static_cast<float*>(p.output) + at),
                    reinterpret_cast<const char*>(done), width * 4);
      } else {
        from_float(p.dtype, done, width, p.output, at);
      }
    }
  });
}

template <class Elem>
void compress_rows(const CompressPlan& plan, const CompressScratch& scratch, int threads) {
  const int64_t heads = compress_rows_heads(plan), tiles = ceil_div(plan.p.N, heads);
  const int64_t windows = compress_item_windows(plan);
  const int64_t items = compress_items(plan);
  parallel_region(threads, [&](const Member& member) {
    float* ring = scratch.of(member.number);
    member.static_for(items * tiles, [&](int64_t work_item) {
      const int64_t n = work_item / tiles * windows, h0 = work_item % tiles * heads;
      compress_work_item<Elem>(plan, scratch.weight, n, min64(n + windows, plan.windows), h0,
                               min64(h0 + heads, plan.p.N), ring);
    });
    if (compress_rows_stream(plan)) stream_fence();
  });
}

// Bytes of one thread's scratch.
int64_t compress_thread_size(const CompressPlan& plan) {
  return compress_open_windows(plan) * compress_rows_heads(plan) * plan.p.D * 4;
}

void compress(const CompressPlan& plan, const CompressScratch& scratch, int threads) {
  load_weight(plan, scratch.weight);
  with_elem(plan.p.dtype,
            [&](auto elem) { compress_rows<decltype(elem)>(plan, scratch, threads); });
}

}  // namespace
}  // namespace nsa::cpu
