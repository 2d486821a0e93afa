// How a launch is timed.
#pragma once

#include <cstdint>
#include <string>

#include "twin/clock/costs.h"

#if defined(__GNUC__)
#define TWIN_CLOCK_API __attribute__((visibility("default")))
#else
#define TWIN_CLOCK_API
#endif

namespace twin::clock {

// A product of Atlas A2. Cores, clock, L2 and HBM from its platform file as third parties quote it.
struct Chip {
  const char* name;
  uint32_t aic_cores;
  uint32_t aiv_cores;
  double mhz;
  uint64_t l2_bytes;
  double hbm_bytes_per_second;  // peak
};

inline constexpr Chip kChips[] = {
    {"910B1", 24, 48, 1850, 192ull << 20, 1.6e12},
    {"910B3", 20, 40, 1800, 192ull << 20, 1.6e12},
    {"910B4", 20, 40, 1500, 96ull << 20, 0.8e12},
};

// Null for a name that is none of them; "Ascend" before it may be left out.
TWIN_CLOCK_API const Chip* FindChip(const std::string& name);

struct Options {
  bool on = false;
  Chip chip = kChips[0];
  Costs costs;
  bool print = false;  // the table, on the standard error stream
  std::string trace;   // file for the trace; "" for none
};

// ASCENDC_TWIN_CLOCK (a chip's name, or 1) and ASCENDC_TWIN_TRACE (a file) ask for these
// options. Throws std::invalid_argument for another value.
TWIN_CLOCK_API Options OptionsOfEnvironment();

// Sets the row `name` of the costs; false if there is none.
TWIN_CLOCK_API bool SetCost(Costs* costs, const std::string& name, double value);

}  // namespace twin::clock
