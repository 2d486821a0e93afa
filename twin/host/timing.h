// Modelled time of the launches of this process, for programs that use the library.
#pragma once

#include "twin/device/launch.h"

namespace twin {

// Launches are timed as TwinSetClock says, else as the environment does.
clock::Options CurrentClock();
void RememberTiming(const LaunchReport& report);

}  // namespace twin

extern "C" {

// Launches are timed on this chip ("910B1", "910B3", "910B4") from now on, and what was timed
// before is forgotten; "" ends it. `trace` is a file for their traces, or "". False for another
// chip.
TWIN_API bool TwinSetClock(const char* chip, const char* trace);
// Replaces a figure of the costs for the launches that are timed; false if there is none so called.
TWIN_API bool TwinSetCost(const char* name, double value);
// A JSON list of the launches timed since TwinSetClock, each with its table as text. It holds until
// the next call.
TWIN_API const char* TwinTimings();
// A JSON list of the costs: name, value, low, high, unit, source.
TWIN_API const char* TwinCosts();
}
