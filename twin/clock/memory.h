// L2 and HBM as the cores share them in modelled time.
#pragma once

#include <cstdint>
#include <vector>

#include "twin/clock/options.h"
#include "twin/clock/record.h"

namespace twin::clock {

// A rate that requests share: time is cut in slots of a fixed length, each with the bytes that it
// can move, and a request takes what is left in the slots from its start on. So a request that is
// looked at late finds the gaps that earlier ones have left, and the order in which requests are
// looked at matters little.
class Ledger {
 public:
  explicit Ledger(double bytes_per_cycle) : rate_(bytes_per_cycle) {}
  // When `bytes` that are asked for at `start`, at most `most` a cycle, have been moved.
  double Take(double start, double bytes, double most);
  double taken() const { return taken_; }
  double rate() const { return rate_; }

 private:
  double rate_;
  double taken_ = 0;
  std::vector<float> used_;  // bytes of each slot
  size_t full_ = 0;          // slots before this one have nothing left
};

// Lines of 128 bytes that L2 holds. A launch begins with none.
class Cache {
 public:
  Cache(uint64_t space, uint64_t capacity);
  // Bytes of the access that L2 does not hold; it holds them from now on.
  double Miss(const GmAccess& access);

 private:
  double Touch(uint64_t line, bool allocate_only);

  uint64_t capacity_lines_;
  uint64_t filled_ = 0;         // lines that came in so far
  std::vector<uint64_t> when_;  // of a line: `filled_` when it was touched last; 0 never
};

struct MemoryTotals {
  double hbm_read = 0, hbm_written = 0, l2_bytes = 0;
};

class MemorySystem {
 public:
  MemorySystem(const Options& options, uint64_t space);
  // When the accesses, begun at `start` at `rate` bytes a cycle of the core, are done; `stretch`
  // times as long as their bytes ask for.
  double Run(double start, const GmAccess* accesses, int count, double rate, double stretch);
  // Cycles of HBM for one line that a scalar access fetches, 0 if L2 has it.
  bool ScalarMiss(const GmAccess& access);
  const MemoryTotals& totals() const { return totals_; }
  double hbm_rate() const { return hbm_.rate(); }
  double l2_rate() const { return l2_.rate(); }

 private:
  Ledger hbm_, l2_;
  Cache cache_;
  MemoryTotals totals_;
};

}  // namespace twin::clock
