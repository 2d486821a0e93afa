// The cost of one instruction by itself.
#pragma once

#include "twin/clock/memory.h"
#include "twin/clock/options.h"
#include "twin/clock/record.h"

namespace twin::clock {

struct Price {
  double busy = 0;     // cycles that its pipe is taken, GM apart
  double latency = 0;  // cycles from there to its end
  double ideal = 0;    // of `busy`, what the rate alone asks for
  double rate = 0;     // bytes a cycle of its accesses to GM; 0 if it has none
  double stretch = 1;  // of the time of those bytes
};

class Prices {
 public:
  Prices(const Options& options, const LaunchRecord& record);
  Price Of(const Op& op, const GmAccess* accesses) const;

 private:
  Price Vector(const Op& op) const;
  Price Cube(const Op& op) const;
  Price Load(const Op& op, const GmAccess* accesses) const;
  Price Store(const Op& op, const GmAccess* accesses) const;
  Price Mte1(const Op& op) const;
  Price Fix(const Op& op, const GmAccess* accesses) const;

  const Costs& costs_;
  std::vector<const VectorRate*> rates_;  // by site
  std::vector<bool> merges_;              // by site: MrgSort
};

}  // namespace twin::clock
