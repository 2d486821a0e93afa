// Shared by the sources of the library of tiling.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

#include "infer/seq.h"
#include "kernel_operator.h"

namespace tiling {

// `core_work(core)` of every core: the most and, in `total`, all of them. -1 where the twin
// refuses, which it explains.
template <class CoreWork>
inline int64_t most_of(int32_t cores, nsa::SeqList* lists, int32_t count, int64_t* total,
                       CoreWork core_work) {
  std::vector<int64_t> work(static_cast<size_t>(cores));
  twin::LaunchOptions options;
  options.kernel = "tiling";
  options.block_dim = static_cast<uint32_t>(cores);
  for (int32_t i = 0; i < count; ++i)
    options.buffers.push_back({"list", lists[i].data(), lists[i].size() * 8, twin::Role::kInput});
  const twin::LaunchReport report = twin::Launch(options, [&] {
    const auto core = static_cast<int32_t>(AscendC::GetBlockIdx());
    work[static_cast<size_t>(core)] = core_work(core);
  });
  if (!report.ok) {
    std::fprintf(stderr, "%s\n", report.error.c_str());
    return -1;
  }
  *total = std::accumulate(work.begin(), work.end(), int64_t{0});
  return *std::max_element(work.begin(), work.end());
}

inline GM_ADDR address(nsa::SeqList* list) { return reinterpret_cast<GM_ADDR>(list->data()); }

}  // namespace tiling

#define EXPORT extern "C" __attribute__((visibility("default")))
