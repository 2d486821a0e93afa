// The tokens that queries picked, while what they add to the gradients of their keys waits in
// memory: a wave of queries is computed first, then the sums of its keys, chunk by chunk.
#pragma once

#include "cpu/engine/threads/scratch.h"
#include "cpu/types.h"

namespace nsa::cpu {

// Columns of a work item that sums, and the binary logarithm of its keys: the sums of 1024 keys,
// 576 KiB, stay in a second-level cache of 1 MiB.
constexpr int64_t kSumColumns = 128;
constexpr int kSumShift = 10;
// Work items of a wave for each thread, at least, so that none waits long for another.
constexpr int64_t kSumItems = 4;

// Blocks of columns of an output with rows of `width` floats.
constexpr int64_t sum_blocks(int64_t width) { return ceil_div(width, kSumColumns); }

struct WaitingTokens {
  int64_t wave;        // queries
  int64_t most;        // tokens of a query
  int shift;           // a chunk has 2^shift keys
  int64_t chunks;      // of the longest segment
  int64_t chunk_keys;  // of a chunk, at most
  int32_t* tokens;     // [wave, most]
  int32_t* order;      // [wave, most] places of tokens, chunk by chunk
  int32_t* ends;       // [wave, chunks] of the chunks in `order`

  // Waves of queries that fit the bytes, of_token more for each token, and chunks small enough for
  // each of several threads to get some of the work items, of which a chunk has `blocks`.
  template <class Segments>
  void plan(const Segments& segments, int64_t blocks, int threads, int64_t bytes,
            int64_t of_token) {
    constexpr int kLeastShift = 6;
    int64_t queries = 1, keys = 1;
    for (const auto& seg : segments) {
      queries = max64(queries, seg.q_len);
      keys = max64(keys, seg.kv_len);
    }
    shift = kSumShift;
    const auto work_items = [&] { return ceil_div(keys, int64_t{1} << shift) * blocks; };
    while (threads > 1 && shift > kLeastShift && work_items() < kSumItems * threads) --shift;
    chunks = ceil_div(keys, int64_t{1} << shift);
    chunk_keys = min64(keys, int64_t{1} << shift);
    wave = min64(queries, max64(1, bytes / (most * (of_token + 8) + chunks * 4)));
  }

  void carve(Arena& arena) {
    tokens = arena.take<int32_t>(wave * most);
    order = arena.take<int32_t>(wave * most);
    ends = arena.take<int32_t>(wave * chunks);
  }
};

}  // namespace nsa::cpu
