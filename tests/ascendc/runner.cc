// Launches NsaCompress and NsaCompressGrad on the twin, without CANN's host side: the tiling of
// op_host, then the kernel on as many cores as asked for. Driven by runner.py through ctypes.
#include <algorithm>

#include "ascendc/nsa_compress/op_host/nsa_compress_tiling.h"
#include "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.h"
#include "tests/ascendc/entries.h"
#include "tests/ascendc/launcher.h"

namespace {

using runner::address;
using runner::Launcher;
using runner::list_of;
using runner::Result;
using runner::Tensor;
using twin::Role;

// Fields as runner.py has them.
struct Call {
  int64_t tokens, rows, heads, dim, block_size, stride;
  int64_t bfloat16, cores, seed;
  Tensor list, input, weight;
  Tensor output_grad;  // not given: the forward
  Tensor output;       // or input_grad
  Tensor weight_grad;
};

nsa::ascend::CompressSizes sizes_of(const Call& c) {
  return {c.tokens,
          c.rows,
          static_cast<int32_t>(c.heads),
          static_cast<int32_t>(c.dim),
          static_cast<int32_t>(c.block_size),
          static_cast<int32_t>(c.stride)};
}

void run_forward(const Call& c, const nsa::SeqList& list, Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaCompressTilingData>();
  const int32_t cores = nsa::ascend::tile_nsa_compress(
      sizes_of(c), list, static_cast<int32_t>(c.cores), nsa::ascend::kUbBytes, &tiling);
  Launcher launcher("nsa_compress", c.seed, result);
  launcher.add("input", c.input, Role::kInput);
  launcher.add("weight", c.weight, Role::kInput);
  launcher.add("actSeqLen", c.list, Role::kInput);
  launcher.add("output", c.output, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c.bfloat16 ? nsa_compress_bfloat16 : nsa_compress_float16;
    kernel(address(c.input), address(c.weight), address(c.list), address(c.output), nullptr,
           address(&tiling));
  });
}

void run_backward(const Call& c, const nsa::SeqList& list, Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaCompressGradTilingData>();
  const int32_t cores = nsa::ascend::tile_nsa_compress_grad(
      sizes_of(c), list, static_cast<int32_t>(c.cores), nsa::ascend::kUbBytes, &tiling);
  Launcher launcher("nsa_compress_grad", c.seed, result);
  launcher.add("outputGrad", c.output_grad, Role::kInput);
  launcher.add("input", c.input, Role::kInput);
  launcher.add("weight", c.weight, Role::kInput);
  launcher.add("actSeqLen", c.list, Role::kInput);
  launcher.add("inputGrad", c.output, Role::kOutput);
  launcher.add("weightGrad", c.weight_grad, Role::kOutput);
  GM_ADDR workspace = launcher.add_workspace(nsa::ascend::nsa_compress_grad_workspace(tiling));
  launcher.run(cores, tiling, [&] {
    const auto kernel = c.bfloat16 ? nsa_compress_grad_bfloat16 : nsa_compress_grad_float16;
    kernel(address(c.output_grad), address(c.input), address(c.weight), address(c.list),
           address(c.output), address(c.weight_grad), workspace, address(&tiling));
  });
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// The forward's tiling: cores used, heads of a tile, bytes of UB, then unit_begin[cores + 1].
EXPORT void tile_forward(const Call* c, int64_t* out) {
  nsa::ascend::NsaCompressTilingData t;
  const nsa::SeqList list = list_of(c->list);
  out[0] = nsa::ascend::tile_nsa_compress(sizes_of(*c), list, static_cast<int32_t>(c->cores),
                                          nsa::ascend::kUbBytes, &t);
  out[1] = t.tile_heads;
  out[2] =
      nsa::ascend::NsaCompressBuffers(t.block_size, t.stride, t.tile_heads, t.dim, t.step_slices)
          .Total();
  std::copy(t.unit_begin, t.unit_begin + out[0] + 1, out + 3);
}

// The gradient's: cores used, heads of a tile, bytes of UB, chunks, covered slices.
EXPORT void tile_backward(const Call* c, int64_t* out) {
  nsa::ascend::NsaCompressGradTilingData t;
  const nsa::SeqList list = list_of(c->list);
  out[0] = nsa::ascend::tile_nsa_compress_grad(sizes_of(*c), list, static_cast<int32_t>(c->cores),
                                               nsa::ascend::kUbBytes, &t);
  out[1] = t.tile_heads;
  out[2] = nsa::ascend::NsaCompressGradBuffers(t.block_size, t.stride, t.tile_heads, t.dim,
                                               t.step_slices)
               .Total();
  out[3] = t.chunks;
  out[4] = t.slices;
}

EXPORT void run(const Call* call, Result* result) {
  const nsa::SeqList list = list_of(call->list);
  if (call->output_grad.data == nullptr) {
    run_forward(*call, list, result);
  } else {
    run_backward(*call, list, result);
  }
}
