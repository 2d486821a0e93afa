// Groups pairs, a key head of a segment each, into waves: what is packed for the pairs of a wave is
// in scratch at the same time. Host side only.
#pragma once

#include <vector>

#include "cpu/types.h"

namespace nsa::cpu {

// Pairs [pair, pair + num_pairs) and what they need.
struct WaveSpan {
  int64_t pair, num_pairs;
  int64_t packed;          // blocks of keys, or parts of them
  int64_t tile, tiles;     // the first, how many
  int64_t key_chunks;      // of a gradient
  int64_t steps;           // of a gradient
  int64_t slots;           // of a gradient: chunks of queries of a range
  int64_t rows;            // queries of all heads
  int64_t accumulators;    // floats
  int64_t index, entries;  // of a selection turned round
};

class Waves {
 public:
  // The wave that pairs are added to.
  WaveSpan& open() { return open_; }

  void close() {
    if (open_.num_pairs > 0) spans_.push_back(open_);
    largest_.num_pairs = max64(largest_.num_pairs, open_.num_pairs);
    largest_.packed = max64(largest_.packed, open_.packed);
    largest_.key_chunks = max64(largest_.key_chunks, open_.key_chunks);
    largest_.slots = max64(largest_.slots, open_.slots);
    largest_.rows = max64(largest_.rows, open_.rows);
    largest_.accumulators = max64(largest_.accumulators, open_.accumulators);
    largest_.index = max64(largest_.index, open_.index);
    largest_.entries = max64(largest_.entries, open_.entries);
    WaveSpan next{};
    next.pair = open_.pair + open_.num_pairs;
    next.tile = open_.tile + open_.tiles;
    open_ = next;
  }

  const std::vector<WaveSpan>& spans() const { return spans_; }
  // The most of each kind that a wave needs.
  const WaveSpan& largest() const { return largest_; }

 private:
  std::vector<WaveSpan> spans_;
  WaveSpan open_{}, largest_{};
};

}  // namespace nsa::cpu
