// Launches NsaCompress and NsaCompressGrad on the twin, without CANN's host side: the tiling of
// op_host, then the kernel on as many cores as asked for. Driven by runner.py through ctypes.
#include <algorithm>
#include <vector>

#include "ascendc/nsa_compress/op_host/nsa_compress_tiling.h"
#include "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.h"
#include "tests/ascendc/launcher.h"

// A kernel source is compiled once per dtype, as CANN does it.
#define DTYPE_INPUT half
#define nsa_compress nsa_compress_float16
#define nsa_compress_grad nsa_compress_grad_float16
#include "ascendc/nsa_compress/op_kernel/nsa_compress.cpp"
#include "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad.cpp"
#undef DTYPE_INPUT
#undef nsa_compress
#undef nsa_compress_grad
#define DTYPE_INPUT bfloat16_t
#define nsa_compress nsa_compress_bfloat16
#define nsa_compress_grad nsa_compress_grad_bfloat16
#include "ascendc/nsa_compress/op_kernel/nsa_compress.cpp"
#include "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad.cpp"

namespace {

struct Call {
  int64_t tokens, rows, heads, dim, segments, block_size, stride;
  int64_t bfloat16, cores, seed;
  const int64_t* list;
  const void* input;
  const void* weight;
  const void* output_grad;  // null: the forward
  void* output;             // or input_grad
  void* weight_grad;
};

using runner::address;
using runner::kGarbage;
using runner::Launcher;
using runner::Result;

nsa::ascend::CompressSizes sizes_of(const Call& c) {
  return {c.tokens,
          c.rows,
          static_cast<int32_t>(c.heads),
          static_cast<int32_t>(c.dim),
          static_cast<int32_t>(c.block_size),
          static_cast<int32_t>(c.stride)};
}

void run_forward(const Call& c, const nsa::SeqList& list, Result* result) {
  nsa::ascend::NsaCompressTilingData tiling;
  std::memset(&tiling, kGarbage, sizeof(tiling));
  const int32_t cores = nsa::ascend::tile_nsa_compress(
      sizes_of(c), list, static_cast<int32_t>(c.cores), nsa::ascend::kUbBytes, &tiling);
  const int64_t row = c.heads * c.dim * 2;
  Launcher launcher("nsa_compress", c.seed, result);
  launcher.add("input", c.input, c.tokens * row, twin::Role::kInput);
  launcher.add("weight", c.weight, c.block_size * c.heads * 2, twin::Role::kInput);
  launcher.add("actSeqLen", c.list, c.segments * 8, twin::Role::kInput);
  launcher.add("output", c.output, c.rows * row, twin::Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c.bfloat16 ? nsa_compress_bfloat16 : nsa_compress_float16;
    kernel(address(c.input), address(c.weight), address(c.list), address(c.output), nullptr,
           address(&tiling));
  });
}

void run_backward(const Call& c, const nsa::SeqList& list, Result* result) {
  nsa::ascend::NsaCompressGradTilingData tiling;
  std::memset(&tiling, kGarbage, sizeof(tiling));
  const int32_t cores = nsa::ascend::tile_nsa_compress_grad(
      sizes_of(c), list, static_cast<int32_t>(c.cores), nsa::ascend::kUbBytes, &tiling);
  const int64_t row = c.heads * c.dim * 2;
  std::vector<uint8_t> workspace(nsa::ascend::nsa_compress_grad_workspace(tiling),
                                 static_cast<uint8_t>(kGarbage));
  Launcher launcher("nsa_compress_grad", c.seed, result);
  launcher.add("outputGrad", c.output_grad, c.rows * row, twin::Role::kInput);
  launcher.add("input", c.input, c.tokens * row, twin::Role::kInput);
  launcher.add("weight", c.weight, c.block_size * c.heads * 2, twin::Role::kInput);
  launcher.add("actSeqLen", c.list, c.segments * 8, twin::Role::kInput);
  launcher.add("inputGrad", c.output, c.tokens * row, twin::Role::kOutput);
  launcher.add("weightGrad", c.weight_grad, c.block_size * c.heads * 2, twin::Role::kOutput);
  launcher.add("workspace", workspace.data(), static_cast<int64_t>(workspace.size()),
               twin::Role::kWorkspace);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c.bfloat16 ? nsa_compress_grad_bfloat16 : nsa_compress_grad_float16;
    kernel(address(c.output_grad), address(c.input), address(c.weight), address(c.list),
           address(c.output), address(c.weight_grad), workspace.data(), address(&tiling));
  });
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// The forward's tiling: cores used, heads of a tile, bytes of UB, then unit_begin[cores + 1].
EXPORT void tile_forward(const Call* c, int64_t* out) {
  nsa::ascend::NsaCompressTilingData t;
  const nsa::SeqList list(c->list, c->list + c->segments);
  out[0] = nsa::ascend::tile_nsa_compress(sizes_of(*c), list, static_cast<int32_t>(c->cores),
                                          nsa::ascend::kUbBytes, &t);
  out[1] = t.tile_heads;
  out[2] =
      nsa::ascend::NsaCompressBuffers(t.block_size, t.stride, t.tile_heads, t.dim, t.step_groups)
          .Total();
  std::copy(t.unit_begin, t.unit_begin + out[0] + 1, out + 3);
}

// The gradient's: cores used, heads of a tile, bytes of UB, chunks, covered groups.
EXPORT void tile_backward(const Call* c, int64_t* out) {
  nsa::ascend::NsaCompressGradTilingData t;
  const nsa::SeqList list(c->list, c->list + c->segments);
  out[0] = nsa::ascend::tile_nsa_compress_grad(sizes_of(*c), list, static_cast<int32_t>(c->cores),
                                               nsa::ascend::kUbBytes, &t);
  out[1] = t.tile_heads;
  out[2] = nsa::ascend::NsaCompressGradBuffers(t.block_size, t.stride, t.tile_heads, t.dim,
                                               t.step_groups)
               .Total();
  out[3] = t.chunks;
  out[4] = t.groups;
}

EXPORT void run(const Call* call, Result* result) {
  std::memset(result, 0, sizeof(*result));
  const nsa::SeqList list(call->list, call->list + call->segments);
  if (call->output_grad == nullptr) {
    run_forward(*call, list, result);
  } else {
    run_backward(*call, list, result);
  }
}
