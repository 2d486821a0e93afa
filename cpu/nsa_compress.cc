#include <cstring>
#include <vector>

#include "cpu/kernel_table.h"
#include "cpu/nsa_compress_plan.h"
#include "cpu/runtime.h"
#include "cpu/scratch.h"

namespace nsa::cpu {
namespace {

void run(const NsaCompressGradParams& p, bool grad) {
  std::vector<CompressSegment> segments;
  int64_t rows = 0, start = 0;
  for (int64_t b = 0; b < p.B; ++b) {
    const int64_t length = p.seq_len[b] - start;
    const int64_t windows = length >= p.block_size ? (length - p.block_size) / p.stride + 1 : 0;
    segments.push_back({start, length, rows, windows});
    start = p.seq_len[b];
    rows += windows;
  }
  CompressPlan plan{p, segments.data(), p.B, rows};

  const KernelTable& table = kernels();
  const int threads = num_threads();
  const int64_t items = compress_items(plan, grad);
  const int64_t part = thread_part(table.compress_thread_size(plan, grad));
  char* thread_parts = nullptr;
  float *weight = nullptr, *partial = nullptr;
  auto carve = [&](Arena& arena) {
    weight = arena.take<float>(p.block_size * p.N);
    thread_parts = arena.take_threads(threads, part);
    if (grad) partial = arena.take<float>(items * p.block_size * p.N);
  };
  Arena size;
  carve(size);
  Scratch scratch(size.used);
  Arena arena{scratch.data()};
  carve(arena);
  table.compress(plan, grad, weight, CompressScratch{thread_parts, part}, partial, threads);
  if (!grad && p.rows > rows) {
    const int64_t row_bytes = p.N * p.D * elem_size(p.dtype);
    std::memset(static_cast<char*>(p.output) + rows * row_bytes, 0,
                static_cast<size_t>((p.rows - rows) * row_bytes));
  }
}

}  // namespace

void nsa_compress(const NsaCompressParams& p) {
  NsaCompressGradParams all{};
  static_cast<NsaCompressParams&>(all) = p;
  run(all, false);
}

void nsa_compress_grad(const NsaCompressGradParams& p) { run(p, true); }

}  // namespace nsa::cpu
