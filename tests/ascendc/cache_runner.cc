// Launches NsaCompressWithCache on the twin: the tiling of op_host, then the kernel on as many
// cores as asked for. Driven by cache_runner.py through ctypes.
#include "ascendc/nsa_compress_with_cache/op_host/nsa_compress_with_cache_tiling.h"
#include "tests/ascendc/entries.h"
#include "tests/ascendc/launcher.h"

namespace {

using runner::address;
using runner::Tensor;
using twin::Role;

// Fields as cache_runner.py has them.
struct Call {
  int64_t pages, page, places, batch, slots, block_size, stride, heads, dim, bfloat16, cores, seed;
  Tensor input, weight, slot_mapping, actual_seq_len, block_table, cache, rows;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void run_compress_with_cache(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaCompressWithCacheTilingData>();
  const nsa::ascend::CompressWithCacheSizes sizes{{c->pages, c->page, c->places, c->page},
                                                  c->batch,
                                                  c->slots,
                                                  c->block_size,
                                                  c->stride,
                                                  static_cast<int32_t>(c->heads),
                                                  static_cast<int32_t>(c->dim)};
  const int32_t cores = nsa::ascend::tile_nsa_compress_with_cache(
      sizes, static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes, &tiling);
  runner::Launcher launcher("nsa_compress_with_cache", c->seed, result);
  launcher.add("input", c->input, Role::kInput);
  launcher.add("weight", c->weight, Role::kInput);
  launcher.add("slotMapping", c->slot_mapping, Role::kInput);
  launcher.add("cache", c->cache, Role::kInOut);
  launcher.add("actSeqLen", c->actual_seq_len, Role::kInput);
  launcher.add("blockTable", c->block_table, Role::kInput);
  launcher.add("rows", c->rows, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel =
        c->bfloat16 != 0 ? nsa_compress_with_cache_bfloat16 : nsa_compress_with_cache_float16;
    kernel(address(c->input), address(c->weight), address(c->slot_mapping), address(c->cache),
           address(c->actual_seq_len), address(c->block_table), address(c->rows), address(c->cache),
           nullptr, address(&tiling));
  });
}

// Heads of a tile, and the bytes of the UB that the kernel takes.
EXPORT void tile_compress_with_cache(const Call* c, int64_t* out) {
  nsa::ascend::NsaCompressWithCacheTilingData t;
  nsa::ascend::tile_nsa_compress_with_cache({{c->pages, c->page, c->places, c->page},
                                             c->batch,
                                             c->slots,
                                             c->block_size,
                                             c->stride,
                                             static_cast<int32_t>(c->heads),
                                             static_cast<int32_t>(c->dim)},
                                            static_cast<int32_t>(c->cores), nsa::ascend::kUbBytes,
                                            &t);
  out[0] = t.tile_heads;
  out[1] = nsa::ascend::NsaCompressWithCacheBuffers(t.tile_heads, t.dim).Total();
}
