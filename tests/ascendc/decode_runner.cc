// Launches NsaDecode on the twin: the tiling of op_host, then the kernel on as many cores as asked
// for. Driven by decode_runner.py through ctypes.
#include "ascendc/nsa_decode/op_host/nsa_decode_tiling.h"
#include "tests/ascendc/entries.h"
#include "tests/ascendc/launcher.h"

namespace {

using nsa::ascend::SplitCall;
using nsa::ascend::SplitTiling;
using runner::address;
using runner::Tensor;
using twin::Role;

struct Cache {
  int64_t pages, page, places;
};

// Fields as decode_runner.py has them.
struct Call {
  Cache compressed, selected, window;
  int64_t batch, queries, n1, n2, d, dv;
  int64_t window_tokens, stride, block_tokens, count, init, local, overlap, seen, heads_first;
  int64_t wave_queries;  // 0: as tiling decides
  int64_t bfloat16, cores, seed;
  double scale;
  Tensor query, gates, key_cmp, value_cmp, key_slc, value_slc, key_win, value_win, block_table,
      cmp_block_table, counts, lengths, output;
};

SplitCall branch(const Call& c, const Cache& cache) {
  return {cache.pages,
          cache.page,
          cache.places,
          c.batch,
          c.queries,
          c.n1,
          c.n2,
          c.d,
          c.dv,
          0,
          static_cast<float>(c.scale),
          false,
          c.heads_first != 0};
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void run_decode(const Call* c, runner::Result* result) {
  auto tiling = runner::unset<nsa::ascend::NsaDecodeTilingData>();
  const nsa::ascend::DecodeCall call{branch(*c, c->compressed),
                                     branch(*c, c->selected),
                                     branch(*c, c->window),
                                     {c->window_tokens, c->stride, c->block_tokens, c->count,
                                      c->init, c->local, c->overlap != 0, true},
                                     c->seen};
  const int32_t cores = nsa::ascend::tile_nsa_decode(call, static_cast<int32_t>(c->cores),
                                                     nsa::ascend::kUbBytes, &tiling);
  for (SplitTiling* splits : {&tiling.compressed.splits, &tiling.selected.splits, &tiling.window})
    if (c->wave_queries > 0) splits->wave_splits = c->wave_queries * splits->splits * splits->heads;
  runner::Launcher launcher("nsa_decode", c->seed, result);
  GM_ADDR workspace = launcher.add_workspace(nsa::ascend::nsa_decode_workspace(tiling, cores));
  launcher.add("query", c->query, Role::kInput);
  launcher.add("gates", c->gates, Role::kInput);
  launcher.add("keyCmp", c->key_cmp, Role::kInput);
  launcher.add("valueCmp", c->value_cmp, Role::kInput);
  launcher.add("keySlc", c->key_slc, Role::kInput);
  launcher.add("valueSlc", c->value_slc, Role::kInput);
  launcher.add("keyWin", c->key_win, Role::kInput);
  launcher.add("valueWin", c->value_win, Role::kInput);
  launcher.add("blockTable", c->block_table, Role::kInput);
  launcher.add("cmpBlockTable", c->cmp_block_table, Role::kInput);
  launcher.add("actualSeqQLen", c->counts, Role::kInput);
  launcher.add("actualSeqKvLen", c->lengths, Role::kInput);
  launcher.add("attentionOut", c->output, Role::kOutput);
  launcher.run(cores, tiling, [&] {
    const auto kernel = c->bfloat16 != 0 ? nsa_decode_bfloat16 : nsa_decode_float16;
    kernel(address(c->query), address(c->gates), address(c->key_cmp), address(c->value_cmp),
           address(c->key_slc), address(c->value_slc), address(c->key_win), address(c->value_win),
           address(c->block_table), address(c->cmp_block_table), address(c->counts),
           address(c->lengths), address(c->output), workspace, address(&tiling));
  });
}
