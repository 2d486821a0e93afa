#include <cstring>
#include <vector>

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/threads/scratch.h"
#include "cpu/engine/threads/team.h"
#include "cpu/nsa_compress/compress_plan.h"

namespace nsa::cpu {
namespace {

// Windows and rows of each segment. The segments are in the vector given back.
[[nodiscard]] std::vector<CompressSegment> make_plan(const NsaCompressParams& p,
                                                     CompressPlan& plan) {
  std::vector<CompressSegment> segments;
  int64_t rows = 0, start = 0;
  for (int64_t b = 0; b < p.B; ++b) {
    const int64_t length = p.seq_len[b] - start;
    const int64_t windows = length >= p.compress_block_size
                                ? (length - p.compress_block_size) / p.compress_stride + 1
                                : 0;
    segments.push_back({start, length, rows, windows});
    start = p.seq_len[b];
    rows += windows;
  }
  plan.segments = segments.data();
  plan.num_segments = p.B;
  plan.windows = rows;
  return segments;
}

void carve(Arena& arena, const NsaCompressParams& p, int threads, CompressScratch& space) {
  space.weight = arena.take<float>(p.compress_block_size * p.N);
  space.threads = arena.take_threads(threads, space.thread_size);
}

}  // namespace

void nsa_compress(const NsaCompressParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  CompressPlan plan{};
  plan.p = p;
  const std::vector<CompressSegment> segments = make_plan(p, plan);
  CompressScratch space{};
  space.thread_size = thread_space(table.compress_thread_size(plan));
  const Scratch scratch([&](Arena& arena) { carve(arena, p, threads, space); });
  table.compress(plan, space, threads);
  if (p.rows > plan.windows) {
    const int64_t row_bytes = p.N * p.D * elem_size(p.dtype);
    std::memset(static_cast<char*>(p.output) + plan.windows * row_bytes, 0,
                static_cast<size_t>((p.rows - plan.windows) * row_bytes));
  }
}

void nsa_compress_grad(const NsaCompressGradParams& p) {
  const KernelTable& table = kernels();
  const int threads = num_threads();
  CompressGradPlan plan{};
  plan.p = p;
  plan.output_grad = p.output_grad;
  plan.input_grad = p.input_grad;
  plan.weight_grad = p.weight_grad;
  const std::vector<CompressSegment> segments = make_plan(p, plan);
  CompressScratch space{};
  float* partial = nullptr;
  space.thread_size = thread_space(table.compress_grad_thread_size(plan));
  const Scratch scratch([&](Arena& arena) {
    carve(arena, p, threads, space);
    partial = arena.take<float>(compress_grad_items(plan) * p.compress_block_size * p.N);
  });
  table.compress_grad(plan, space, partial, threads);
}

}  // namespace nsa::cpu
