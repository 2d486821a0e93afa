// How the attention of new tokens over a cache is cut up for the cores.
#pragma once

#include "ascendc/decoding/split_tiling.h"

namespace nsa::ascend {

// A call that infer/ has accepted; the lengths of its rows are known on the device alone.
struct SplitCall {
  int64_t pages, page, places;  // places: of block_table, 0: there is none
  int64_t batch, queries;
  int64_t n1, n2, d, dv;
  int64_t keys;  // of a decode row, at most
  float scale;
  bool ranked;               // whether the scores of a wave stay until they are ranked
  bool heads_first = false;  // the cache is [pages, N2, page, D]
  bool shared = false;       // whether queries of a row may have the same splits

  int64_t capacity() const { return places > 0 ? places * page : page; }
};

// Fills the tiling data and returns the number of cube cores to use, at most `cores`.
int32_t tile_splits(const SplitCall& call, int32_t cores, SplitTiling* tiling);

// Bytes of the workspace of `cores` cube cores.
int64_t split_workspace(const SplitTiling& tiling, int32_t cores);

}  // namespace nsa::ascend
