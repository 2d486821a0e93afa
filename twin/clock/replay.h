// Modelled time of a recorded launch: when every instruction began and ended, and what it waited
// for. Time follows the dependencies that the kernel states (its pipes' order, flags, barriers,
// cross-core flags) and shared bandwidth; the order in which the twin let cores run has no part.
#pragma once

#include <string>
#include <vector>

#include "twin/clock/memory.h"
#include "twin/clock/options.h"
#include "twin/clock/record.h"

namespace twin::clock {

// The beginning of an operation came from one of these.
enum class Cause : uint8_t {
  kStart,     // the core began
  kIssue,     // the scalar unit issued it no earlier
  kPipe,      // the pipe was busy with the one before
  kFlag,      // a flag of another pipe
  kBarrier,   // a barrier
  kUnitFlag,  // Mmad and Fixpipe on one tile of L0C
  kCross,     // another core
  kQueue,     // the pipe's queue was full, so the scalar unit waited
  kCauses
};
const char* CauseName(Cause cause);

constexpr uint32_t kNoOp = ~0u;

struct OpRef {
  uint32_t op = kNoOp;
  uint32_t core = 0;
};

// When an operation was issued, began, left its pipe, and was complete; in cycles.
struct Moment {
  double issue = 0;  // the scalar unit came to it
  double start = 0;
  double free = 0;
  double end = 0;
  OpRef issue_after;  // what the scalar unit waited for, if anything
  OpRef start_after;  // what the pipe waited for, if not the pipe or the issue
  Cause issue_cause = Cause::kIssue;
  Cause start_cause = Cause::kIssue;
};

struct PipeUse {
  uint64_t instructions = 0;
  double busy = 0;
  double ideal = 0;      // of it, what the rates alone ask for
  double conflicts = 0;  // of it, cycles of bank conflicts
  double gm_bytes = 0;
  double waits[static_cast<int>(Cause::kCauses)] = {};  // idle cycles before an instruction
  double flag_waits[kPipeCount] = {};                   // of kFlag, by the flag's first pipe
};

struct CoreTime {
  double begin = 0;
  double end = 0;
  PipeUse pipes[kPipeCount];
  std::vector<Moment> moments;  // by operation
};

struct Replay {
  double cycles = 0;  // from the first core's start to the last one's end
  uint32_t resident_blocks = 0;
  uint32_t waves = 0;
  bool all_blocks_needed = false;  // blocks beyond the chip's cores waited for each other
  std::vector<CoreTime> cores;
  MemoryTotals memory;
  double hbm_rate = 0, l2_rate = 0;  // bytes a cycle
};

Replay Run(const LaunchRecord& record, const Options& options);

}  // namespace twin::clock
