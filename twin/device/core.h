// State of one core (an AIC or an AIV) during a launch.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "twin/clock/record.h"
#include "twin/device/buf_pool.h"
#include "twin/device/shadow.h"
#include "twin/device/view.h"

namespace AscendC {
class TPipe;
}

namespace twin {

struct LaunchState;
struct CubeState;
class Fiber;

// Stores to GM by DMA.
enum AtomicOperation : uint8_t { kAtomicNone, kAtomicAdd, kAtomicMax, kAtomicMin };

// Registers that instructions set and later ones obey.
struct Registers {
  // Mask of vector instructions: counter mode takes `mask[0]` elements in all, normal mode bits.
  bool counter_mode = false;
  uint64_t mask[2] = {~0ull, ~0ull};  // low, high
  uint8_t mask_kind = 0;              // of `mask`: 0 either, 1 lanes, 2 a number of elements
  uint64_t compare_mask[2] = {0, 0};
  bool compare_mask_set = false;
  uint64_t ctrl = 0;  // CTRL; bit 48 off: floating-point results saturate
  struct Access {
    uint32_t seq = 0;
    uint32_t site = 0;
  };
  Access ctrl_reads[kPipes];       // the last instruction of each pipe that depends on CTRL
  uint64_t accumulated = 0;        // of a reduction, GetAccVal
  bool accumulated_lacks = false;  // it came from bytes without a value
  uint64_t reduce_max_min[2] = {0, 0};
  bool reduced_lacks = false;
  uint32_t reduced_at = 0;      // the instruction of PIPE_V that set reduce_max_min
  uint32_t merged_at = 0;       // the instruction of PIPE_V that set merge_sort
  uint64_t reserved_count = 0;  // GatherMask
  uint16_t merge_sort[4] = {0, 0, 0, 0};
  uint16_t deq_scale = 0;  // bits of a half
  bool deq_scale_set = false;
  uint64_t pad_value = 0;  // DataCopyPad, LoadData
  bool pad_value_set = false;
  AtomicOperation atomic = kAtomicNone;
  const char* atomic_dtype = nullptr;
  Where atomic_where;
};

struct LocalMemory {
  uint8_t* data = nullptr;
  Shadow shadow;
};

// The last fill of GM has put this into the part of UB that it takes, and by which instruction.
struct LastFill {
  uint32_t address = 0;
  uint32_t bytes = 0;
  uint32_t element = 0;
  uint64_t value = 0;
  uint32_t seq = 0;
};

struct FlagSlot {
  struct Set {
    uint32_t clock[kPipes + 1];
    Where where;
  };
  std::vector<Set> sets;  // not waited for yet
};

struct PipeCounters {
  uint64_t instructions = 0;
  uint64_t repeats = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t gm_read_bytes = 0;
  uint64_t gm_written_bytes = 0;
};

struct Core {
  LaunchState* launch = nullptr;
  uint16_t index = 0;  // among all cores of the launch
  bool cube = false;
  uint32_t block = 0;
  uint32_t sub_block = 0;

  uint32_t issued[kPipes + 1] = {};
  // Each pipe of this core knows up to which instruction of every pipe all is complete.
  uint32_t seen[kPipes + 1][kPipes + 1] = {};
  // This core knows so much of others, [cores, kPipes + 1]; null before the first cross-core wait.
  std::unique_ptr<uint32_t[]> remote;

  std::unique_ptr<LocalMemory> memory[kMemories];
  Registers registers;
  // Registers and unit flags of an AIC, from their first use on.
  std::shared_ptr<CubeState> cube_state;
  FlagSlot flags[static_cast<int>(HardEvent::MAX)][kEventIds];
  PipeCounters counters[kPipes + 1];
  LastFill last_fill;

  AscendC::TPipe* pipe = nullptr;
  std::deque<Buffer> buffers;
  std::deque<BufPool> pools;  // every TBufPool that there was
  std::unique_ptr<Fiber> fiber;
  const char* last_name = nullptr;  // of the last instruction that was issued
  Where last_where;
  clock::CoreRecord* record = nullptr;  // null where the launch is not timed
};

// The core that runs now. Set only inside a launch.
TWIN_API extern Core* current_core;

// A pipe starts an instruction after the scalar unit issued it, hence after all that the scalar
// unit has waited for. Its own accesses to on-chip memory are not ordered by that.
inline void JoinScalar(Core& core, int pipe) {
  if (pipe == 0) return;
  for (int q = 1; q < kPipes; ++q) {
    if (core.seen[pipe][q] < core.seen[0][q]) core.seen[pipe][q] = core.seen[0][q];
  }
}

// All that `from` has issued so far is complete before what `to` issues next.
TWIN_API void Order(Core& core, pipe_t from, pipe_t to);

// For modelled time: the core has come to a flag or a barrier.
void RecordSync(Core& core, clock::OpKind kind, const char* name, const Where& where, int pipe,
                int other, int id);

// The on-chip memory of a core; it exists from its first use on.
LocalMemory& UseMemory(Core& core, Hardware memory);

// Like current_core, but an error outside a kernel.
TWIN_API Core& ThisCore(const char* what, const Where& where);

}  // namespace twin
