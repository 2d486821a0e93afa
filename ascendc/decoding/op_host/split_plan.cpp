#include "ascendc/decoding/op_host/split_plan.h"

#include <algorithm>

namespace nsa::ascend {

namespace {

// Limit of the workspace for the splits of a wave: a prompt has many decode rows.
constexpr int64_t kWaveBytes = int64_t{32} * 1024 * 1024;

}  // namespace

int32_t tile_splits(const SplitCall& call, int32_t cores, SplitTiling* tiling) {
  SplitTiling& t = *tiling;
  const bool paged = call.places > 0;
  // Heads lie side by side in a token, or tokens in a head.
  const int64_t apart = call.heads_first ? call.n2 : 1;
  t.pages = paged ? PagesTiling{call.pages, call.page, call.places, call.page * apart}
                  : PagesTiling{call.pages * call.page * apart, 1, 0, 1};
  t.capacity = call.capacity();
  t.batch = call.batch;
  t.per_row = call.batch == 0 ? 0 : call.queries / call.batch;
  t.queries = call.queries;
  t.heads = static_cast<int32_t>(call.n2);
  t.group = static_cast<int32_t>(call.n1 / call.n2);
  t.dim = static_cast<int32_t>(call.d);
  t.value_dim = static_cast<int32_t>(call.dv);
  t.split_keys = SplitKeys(t.group, t.dim, t.value_dim);
  t.scale = call.scale;
  t.ranked = call.ranked ? 1 : 0;
  const auto strides = [&](int64_t dim) {
    return call.heads_first ? CacheStrides{dim, call.page * dim, 0}
                            : CacheStrides{call.n2 * dim, dim, 0};
  };
  t.key = strides(call.d);
  t.value = strides(call.dv);
  t.row_tokens = call.page * apart;
  t.splits = std::max<int64_t>(1, (call.keys + t.split_keys - 1) / t.split_keys);
  const int64_t of_query = t.splits * t.heads;
  // Two splits of a core, one after the other, take no longer than one with the rows of several
  // queries.
  const bool shared = call.shared && t.queries * of_query > 2 * cores;
  t.shared =
      static_cast<int32_t>(std::clamp<int64_t>(t.queries, 1, shared ? SharedQueries(t.group) : 1));
  t.rows = t.shared * t.group;
  const SplitWorkspace bytes(t);
  t.wave_splits = std::clamp<int64_t>(kWaveBytes / bytes.Split(), of_query,
                                      std::max<int64_t>(1, t.queries) * of_query);
  return static_cast<int32_t>(std::clamp<int64_t>(t.queries * of_query, 1, cores));
}

int64_t split_workspace(const SplitTiling& tiling, int32_t cores) {
  return SplitWorkspace(tiling).Total(cores, tiling.wave_splits);
}

}  // namespace nsa::ascend
