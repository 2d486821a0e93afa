// A report says for people and for programs how long a launch takes in modelled time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "twin/clock/replay.h"

namespace twin::clock {

// A place on the critical path: without it the launch would end earlier.
struct PathPlace {
  std::string name;  // instruction
  std::string file;
  int line = 0;
  std::string what;  // "runs", "waits: <cause>"
  double cycles = 0;
};

struct PipeSummary {
  bool cube = false;
  int pipe = 0;
  uint64_t instructions = 0;
  double busy = 0;       // cycles, summed over cores
  double most_busy = 0;  // of one core
  double ideal = 0;
  double conflicts = 0;
  double gm_bytes = 0;
  double waits[static_cast<int>(Cause::kCauses)] = {};
  double flag_waits[kPipeCount] = {};
};

// No schedule can beat this time, from the counts alone, in microseconds.
struct Bound {
  double cube = 0, vector = 0, fix = 0, mte1 = 0, load = 0, store = 0, l2 = 0, hbm = 0;
  double Most() const;
  const char* Name() const;  // of the largest
};

class TWIN_CLOCK_API Report {
 public:
  Report(std::shared_ptr<const LaunchRecord> record, const Options& options);

  double microseconds() const { return ToMicroseconds(replay_.cycles); }
  // Modelled time with one cost replaced.
  double MicrosecondsWith(const std::string& cost, double value) const;
  Bound bound() const;
  std::vector<PipeSummary> Pipes() const;
  // The largest first.
  std::vector<PathPlace> CriticalPath() const;
  // The last end of a core over the mean of its kind, less one; the larger of AIC and AIV.
  double Imbalance() const;
  std::string Table() const;
  std::string Json() const;
  // In the Chrome trace format, which Perfetto opens. False if the file cannot be written.
  bool WriteTrace(const std::string& path) const;

  const Replay& replay() const { return replay_; }
  const LaunchRecord& record() const { return *record_; }
  double ToMicroseconds(double cycles) const { return cycles / options_.chip.mhz; }

 private:
  std::shared_ptr<const LaunchRecord> record_;
  Options options_;
  Replay replay_;
};

const char* ShortPipeName(int pipe);

}  // namespace twin::clock
