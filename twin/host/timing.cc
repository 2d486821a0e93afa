#include "twin/host/timing.h"

#include <mutex>
#include <optional>
#include <string>

namespace twin {

namespace {

struct Timings {
  std::mutex mutex;
  std::optional<clock::Options> options;  // as TwinSetClock says
  std::string launches;                   // JSON, with commas between
};

Timings& TheTimings() {
  static Timings timings;
  return timings;
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace

clock::Options CurrentClock() {
  Timings& timings = TheTimings();
  const std::lock_guard<std::mutex> lock(timings.mutex);
  return timings.options ? *timings.options : clock::OptionsOfEnvironment();
}

void RememberTiming(const LaunchReport& report) {
  if (report.clock == nullptr) return;
  Timings& timings = TheTimings();
  const std::lock_guard<std::mutex> lock(timings.mutex);
  // The environment asks for printing, and nobody for the list.
  if (!timings.options) return;
  std::string json = report.clock->Json();
  json.back() = ',';
  timings.launches += timings.launches.empty() ? "" : ",\n";
  timings.launches += json + " \"table\": " + Quoted(report.clock->Table()) + "}";
}

}  // namespace twin

using twin::TheTimings;

bool TwinSetClock(const char* chip, const char* trace) {
  twin::Timings& timings = TheTimings();
  const std::lock_guard<std::mutex> lock(timings.mutex);
  timings.launches.clear();
  timings.options.reset();
  if (chip[0] == '\0') return true;
  const twin::clock::Chip* found = twin::clock::FindChip(chip);
  if (found == nullptr) return false;
  timings.options.emplace();
  timings.options->on = true;
  timings.options->chip = *found;
  timings.options->trace = trace;
  return true;
}

bool TwinSetCost(const char* name, double value) {
  twin::Timings& timings = TheTimings();
  const std::lock_guard<std::mutex> lock(timings.mutex);
  return timings.options && twin::clock::SetCost(&timings.options->costs, name, value);
}

const char* TwinTimings() {
  static std::string text;
  twin::Timings& timings = TheTimings();
  const std::lock_guard<std::mutex> lock(timings.mutex);
  text = "[" + timings.launches + "]";
  return text.c_str();
}

const char* TwinCosts() {
  static const std::string text = [] {
    std::string out = "[";
    for (const twin::clock::CostRow& row : twin::clock::kCostRows) {
      out +=
          twin::Format("%s{\"name\": \"%s\", \"value\": %.17g, \"low\": %.17g, \"high\": %.17g, ",
                       out.size() > 1 ? ",\n" : "", row.name, row.value, row.low, row.high);
      out +=
          "\"unit\": " + twin::Quoted(row.unit) + ", \"source\": " + twin::Quoted(row.source) + "}";
    }
    for (const twin::clock::VectorRate& row : twin::clock::kVectorRates) {
      const std::string names = row.names;
      out += twin::Format(",\n{\"name\": %s, \"value\": %.17g, \"low\": %.17g, \"high\": %.17g, ",
                          twin::Quoted(names.substr(1, names.size() - 2)).c_str(), row.wide,
                          row.wide, row.narrow);
      out += "\"unit\": \"cycles/repeat\", \"source\": " + twin::Quoted(row.source) + "}";
    }
    return out + "]";
  }();
  return text.c_str();
}
