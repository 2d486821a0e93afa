// Work that tiling gives the cores of a launch, for `python -m benchmarks --target ascend_twin`,
// compiled by it when it runs: the op_host tiling of an operator fills its tiling data, and every
// core of the twin walks its steps as the kernel does, without the data.
#include "benchmarks/tiling.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ascendc/attention/grad_steps.h"
#include "ascendc/flash_attention_score/op_host/flash_attention_score_tiling.h"
#include "ascendc/flash_attention_score_grad/op_host/flash_attention_score_grad_tiling.h"
#include "ascendc/nsa_compress/op_host/nsa_compress_tiling.h"
#include "ascendc/nsa_compress/op_kernel/nsa_compress_steps.h"
#include "ascendc/nsa_compress_attention/op_host/nsa_compress_attention_tiling.h"
#include "ascendc/nsa_compress_grad/op_host/nsa_compress_grad_tiling.h"
#include "ascendc/nsa_compress_grad/op_kernel/nsa_compress_grad_steps.h"

namespace {

using namespace nsa::ascend;
using tiling::address;
using tiling::most_of;

// Slices of 16 tokens times heads.
template <class Steps, class Step, class Tiling, class... Cores>
int64_t slices_of(const Tiling& tiling, nsa::SeqList* list, int32_t core, Cores... cores) {
  Steps steps;
  steps.Init(address(list), tiling, core, cores...);
  int64_t slices = 0;
  for (Step step; steps.Next(&step);) {
    const int32_t first = step.tile * tiling.tile_heads;
    slices += step.slices * std::min(tiling.tile_heads, tiling.heads - first);
  }
  return slices;
}

CompressSizes sizes_of(const nsa::SeqList& list, int64_t heads, int64_t dim, int64_t block,
                       int64_t stride) {
  return {list.back(),
          nsa::compressed_rows(list, block, stride),
          static_cast<int32_t>(heads),
          static_cast<int32_t>(dim),
          static_cast<int32_t>(block),
          static_cast<int32_t>(stride)};
}

FlashCall causal(int64_t tokens, int64_t heads, int64_t dim) {
  FlashCall call;
  call.dims = {nsa::InputLayout::kBNSD, 1, heads, heads, tokens, tokens, dim, dim};
  call.sparse_mode = 3;
  return call;
}

// Scores of a query with a key in the steps of the busiest core, of both walks: that over queries
// and that over keys.
int64_t grad_scores(const FlashCall& call, int64_t cores, int64_t* total) {
  FlashAttentionScoreGradTilingData t;
  const int32_t used =
      tile_flash_attention_score_grad(call, static_cast<int32_t>(cores), kUbBytes, &t);
  nsa::SeqList lists[] = {call.query_ends, call.key_ends};
  return most_of(used, lists, 2, total, [&](int32_t) {
    GradSteps steps;
    steps.Init(&t.queries, &t.keys, &t.mask, call.packed() ? address(&lists[0]) : nullptr,
               call.packed() ? address(&lists[1]) : nullptr, nullptr, nullptr);
    int64_t scores = 0;
    for (GradStep step; steps.Next(&step);) scores += int64_t{step.rows} * step.keys;
    return scores;
  });
}

}  // namespace

EXPORT int64_t nsa_compress(int64_t tokens, int64_t heads, int64_t dim, int64_t block,
                            int64_t stride, int64_t cores, int64_t* total) {
  nsa::SeqList list{tokens};
  NsaCompressTilingData t;
  const CompressSizes sizes = sizes_of(list, heads, dim, block, stride);
  const int32_t used = tile_nsa_compress(sizes, list, static_cast<int32_t>(cores), kUbBytes, &t);
  return most_of(used, &list, 1, total, [&](int32_t core) {
    return slices_of<NsaCompressSteps, NsaCompressStep>(t, &list, core);
  });
}

EXPORT int64_t nsa_compress_grad(int64_t tokens, int64_t heads, int64_t dim, int64_t block,
                                 int64_t stride, int64_t cores, int64_t* total) {
  nsa::SeqList list{tokens};
  NsaCompressGradTilingData t;
  const CompressSizes sizes = sizes_of(list, heads, dim, block, stride);
  const int32_t used =
      tile_nsa_compress_grad(sizes, list, static_cast<int32_t>(cores), kUbBytes, &t);
  return most_of(used, &list, 1, total, [&](int32_t core) {
    return slices_of<NsaCompressGradSteps, NsaCompressGradStep>(t, &list, core, int64_t{used});
  });
}

// Scores of a query with a compressed token in the tiles of the busiest core; a causal call of one
// segment.
EXPORT int64_t nsa_compress_attention(int64_t tokens, int64_t heads, int64_t kv_heads, int64_t dim,
                                      int64_t value_dim, int64_t block, int64_t stride,
                                      int64_t select, int64_t count, int64_t cores,
                                      int64_t* total) {
  CompressAttentionCall call;
  call.queries = tokens;
  call.heads = heads;
  call.key_heads = kv_heads;
  call.dim = dim;
  call.value_dim = value_dim;
  call.query_ends = {tokens};
  call.key_ends = nsa::compressed_seq_len(call.query_ends, block, stride);
  call.keys = call.key_ends.back();
  call.rule = {block, stride, select, true, nsa::Importance::kOverlap};
  call.count = count;
  NsaCompressAttentionTilingData t;
  const int32_t used = tile_nsa_compress_attention(call, static_cast<int32_t>(cores), kUbBytes, &t);
  nsa::SeqList lists[] = {call.query_ends, call.key_ends};
  return most_of(used, lists, 2, total, [&](int32_t) {
    WorkItems items;
    items.Init(&t.work, &t.mask, address(&lists[0]), address(&lists[1]), nullptr);
    int64_t scores = 0;
    for (WorkItem item; items.Next(&item);)
      scores += item.rows * heads / kv_heads * SpanOf(item.visible, item.row, item.rows).end;
    return scores;
  });
}

// Scores of a query with a key in the steps of the busiest core; a causal call of 16-bit values.
EXPORT int64_t flash_attention_score(int64_t tokens, int64_t heads, int64_t dim, int64_t cores,
                                     int64_t* total) {
  FlashAttentionScoreTilingData t;
  const int32_t used = tile_flash_attention_score(causal(tokens, heads, dim),
                                                  static_cast<int32_t>(cores), kUbBytes, &t);
  return most_of(used, nullptr, 0, total, [&](int32_t) {
    KeySteps steps;
    steps.Init(&t.work, &t.mask, nullptr, nullptr, nullptr);
    int64_t scores = 0;
    for (KeyStep step; steps.Next(&step);) scores += int64_t{step.item.rows} * step.keys;
    return scores;
  });
}

// Likewise, of a causal call of 16-bit values.
EXPORT int64_t flash_attention_score_grad(int64_t tokens, int64_t heads, int64_t dim, int64_t cores,
                                          int64_t* total) {
  return grad_scores(causal(tokens, heads, dim), cores, total);
}

// The gradient of NsaCompressAttention runs this kernel too, in one segment.
EXPORT int64_t nsa_compress_attention_grad(int64_t tokens, int64_t heads, int64_t kv_heads,
                                           int64_t dim, int64_t value_dim, int64_t block,
                                           int64_t stride, int64_t, int64_t, int64_t cores,
                                           int64_t* total) {
  FlashCall call;
  call.query_ends = {tokens};
  call.key_ends = nsa::compressed_seq_len(call.query_ends, block, stride);
  call.dims = {nsa::InputLayout::kTND, 1,   heads,    kv_heads, tokens,
               call.key_ends.back(),   dim, value_dim};
  call.compress_block = block;
  call.compress_stride = stride;
  return grad_scores(call, cores, total);
}
