#include "twin/clock/options.h"

#include <cstdlib>
#include <stdexcept>

namespace twin::clock {

const Chip* FindChip(const std::string& name) {
  const std::string prefix = "Ascend";
  const std::string plain = name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : name;
  for (const Chip& chip : kChips) {
    if (plain == chip.name) return &chip;
  }
  return nullptr;
}

Options OptionsOfEnvironment() {
  Options options;
  const char* clock = std::getenv("ASCENDC_TWIN_CLOCK");
  const char* trace = std::getenv("ASCENDC_TWIN_TRACE");
  if (trace != nullptr) options.trace = trace;
  const std::string text = clock == nullptr ? "" : clock;
  options.print = !text.empty() && text != "0";
  options.on = options.print || !options.trace.empty();
  if (!options.print || text == "1") return options;
  const Chip* chip = FindChip(text);
  if (chip == nullptr) {
    std::string names;
    for (const Chip& each : kChips) names += std::string(each.name) + ", ";
    throw std::invalid_argument("ASCENDC_TWIN_CLOCK must be 0, 1 or a chip (" +
                                names.substr(0, names.size() - 2) + "), got '" + text + "'");
  }
  options.chip = *chip;
  return options;
}

bool SetCost(Costs* costs, const std::string& name, double value) {
#define TWIN_CLOCK_SET(row, standard, low, high, unit, source) \
  if (name == #row) {                                          \
    costs->row = value;                                        \
    return true;                                               \
  }
  TWIN_CLOCK_COSTS(TWIN_CLOCK_SET)
#undef TWIN_CLOCK_SET
  return false;
}

}  // namespace twin::clock
