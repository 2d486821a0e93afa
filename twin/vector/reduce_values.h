// The sums and extremes of one repeat.
#pragma once

#include <cstring>

#include "twin/device/float16.h"
#include "twin/vector/lanes.h"

namespace twin {

// Neighbours are added, then the sums of neighbours: ((1+2)+(3+4))+...; a lane that takes no part
// leaves its neighbour as it is. False when no lane takes part.
template <typename T>
bool TreeSum(const T* values, const bool* active, uint32_t n, T* sum) {
  T level[128];
  bool present[128];
  std::memcpy(level, values, n * sizeof(T));
  std::memcpy(present, active, n);
  for (; n > 1; n /= 2) {
    for (uint32_t i = 0; i < n / 2; ++i) {
      const bool a = present[2 * i], b = present[2 * i + 1];
      level[i] = a && b ? level[2 * i] + level[2 * i + 1] : b ? level[2 * i + 1] : level[2 * i];
      present[i] = a || b;
    }
  }
  *sum = level[0];
  return present[0];
}

// The first extreme of the active lanes. False when no lane takes part.
template <typename T>
bool Extreme(const T* values, const bool* active, uint32_t n, bool larger, T* value,
             uint32_t* lane) {
  bool found = false;
  for (uint32_t i = 0; i < n; ++i) {
    if (!active[i]) continue;
    if (!found || (larger ? values[i] > *value : values[i] < *value)) {
      *value = values[i];
      *lane = i;
      found = true;
    }
  }
  return found;
}

// One repeat of a source.
template <typename T>
struct RepeatValues {
  T values[128];
  bool active[128];

  RepeatValues(const Plan& plan, const LaneOperand& source, uint64_t repeat) {
    const bool tail = repeat == plan.whole;
    for (uint32_t lane = 0; lane < plan.lanes; ++lane) {
      active[lane] = tail ? lane < plan.tail : plan.active(lane);
      values[lane] =
          active[lane] ? *reinterpret_cast<const T*>(source.At(repeat, lane)) : static_cast<T>(0);
    }
  }
};

}  // namespace twin
