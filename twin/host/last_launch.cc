#include "twin/host/last_launch.h"

#include <mutex>

namespace twin {

namespace {

struct Last {
  std::mutex mutex;
  TwinLaunch launch{};
  std::string warnings;
};

Last& TheLast() {
  static Last last;
  return last;
}

}  // namespace

void RememberLaunch(LaunchReport report) {
  Last& last = TheLast();
  const std::lock_guard<std::mutex> lock(last.mutex);
  TwinLaunch& launch = last.launch;
  ++launch.launches;
  launch.cores = report.cores;
  launch.warnings = 0;
  launch.unwritten_bytes = 0;
  last.warnings.clear();
  for (const Warning& warning : report.warnings) {
    launch.warnings += warning.count;
    last.warnings +=
        warning.kind + ": " + std::to_string(warning.count) + ": " + warning.message + "\n";
  }
  for (uint64_t bytes : report.unwritten) launch.unwritten_bytes += bytes;
  for (size_t i = 0; i < std::size(launch.pipes); ++i) {
    const PipeTotals& from = report.pipes[i];
    launch.pipes[i] = {from.instructions,      from.repeats,       from.read_bytes,
                       from.written_bytes,     from.gm_read_bytes, from.gm_written_bytes,
                       from.most_instructions, from.most_gm_bytes};
  }
}

}  // namespace twin

void TwinLastLaunch(TwinLaunch* launch) {
  const std::lock_guard<std::mutex> lock(twin::TheLast().mutex);
  *launch = twin::TheLast().launch;
}

const char* TwinLastWarnings() {
  const std::lock_guard<std::mutex> lock(twin::TheLast().mutex);
  return twin::TheLast().warnings.c_str();
}
