// Windows of NsaCompress and how they are shared out. Sizes of work depend on shapes only.
#pragma once

#include "cpu/nsa_compress/params.h"

namespace nsa::cpu {

struct CompressSegment {
  int64_t start, length;  // tokens
  int64_t first_row;      // of the output
  int64_t windows;
};

struct CompressPlan {
  NsaCompressParams p;
  const CompressSegment* segments;
  int64_t num_segments;
  int64_t windows;  // in all segments
};

struct CompressGradPlan : CompressPlan {  // p.output is unused
  const void* output_grad;
  void *input_grad, *weight_grad;
};

// Scratch of the threads, `thread_size` bytes apart.
struct CompressScratch {
  float* weight;  // [l, N]
  char* threads;
  int64_t thread_size;

  float* of(int thread) const { return reinterpret_cast<float*>(threads + thread * thread_size); }
};

// Tokens that one step of a walk adds to the sums it has loaded.
constexpr int64_t kCompressTokens = 8;
// Most windows of a work item. Neighbouring items both read the l - s tokens they share.
constexpr int64_t kCompressWindows = 32;
// Tokens of a work item of the gradient: at most, because more would hardly spare work; at least,
// because every item has sums of its own to clear and to add up.
constexpr int64_t kCompressGradTokens = 256;
constexpr int64_t kCompressLeastGradTokens = 32;
// Work items that keep the processors of a large machine busy.
constexpr int64_t kCompressWorkItems = 64;
// Floats of the sums of one thread, at most (unless one head needs more): a share of the
// second-level cache.
constexpr int64_t kCompressSums = 64 * 1024;

// Unnamed namespace: a function shared by translation units for different processors could be
// linked from the wrong one.
namespace {

inline int64_t compress_item_windows(const CompressPlan& plan) {
  return max64(1, min64(kCompressWindows, plan.windows / kCompressWorkItems));
}

// Tokens of an item of the gradient, whole runs. Partial sums of the weight gradient are taken per
// item, so this fixes the order of its additions. At least as many as a window has, so that all
// partial sums, l per item and head, are no more than one per token and head.
inline int64_t compress_item_tokens(const CompressPlan& plan) {
  const int64_t tokens = min64(kCompressGradTokens, ceil_div(plan.p.T, kCompressWorkItems));
  return round_up(max64(max64(kCompressLeastGradTokens, tokens), plan.p.compress_block_size),
                  kCompressTokens);
}

inline int64_t compress_items(const CompressPlan& plan) {
  return ceil_div(plan.windows, compress_item_windows(plan));
}

inline int64_t compress_grad_items(const CompressPlan& plan) {
  return ceil_div(plan.p.T, compress_item_tokens(plan));
}

// Heads of a work item, which is an item's share of some heads: all of them, so that tokens are
// read in the order of memory, unless their sums do not fit or there are few items.
inline int64_t compress_work_item_heads(const CompressPlan& plan, int64_t items,
                                        int64_t floats_per_head) {
  const int64_t fit = max64(1, kCompressSums / max64(1, floats_per_head));
  const int64_t tiles = ceil_div(kCompressWorkItems, max64(1, items));
  return max64(1, min64(fit, ceil_div(plan.p.N, tiles)));
}

// Windows that share a step's tokens, at most: those that start less than l before its last token.
inline int64_t compress_open_windows(const CompressPlan& plan) {
  return ceil_div(plan.p.compress_block_size + kCompressTokens - 1, plan.p.compress_stride);
}

}  // namespace
}  // namespace nsa::cpu
