// The cores of a running launch share this state.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "twin/device/core.h"
#include "twin/device/fiber.h"
#include "twin/device/launch.h"
#include "twin/device/missing.h"

namespace twin {

// A core knew this when it raised a cross-core flag, [cores, kPipes + 1].
using Knowledge = std::shared_ptr<std::vector<uint32_t>>;

// Bytes without a value that an instruction has stored.
struct CarriedBytes {
  uint64_t begin, end;
  uint32_t site;
  uint32_t origin;  // site of the instruction that first read bytes without a value
  uint16_t core;
};

struct GlobalBuffer {
  std::string name;
  uint8_t* address = nullptr;
  uint64_t bytes = 0;
  Role role = Role::kInOut;
  bool filled_unwritten = false;
  bool expect_written = false;
  bool empty_at_start = false;  // no byte held a value
  bool read = false;            // by the kernel
  std::vector<CarriedBytes> carried;
  Shadow shadow;
  bool tracked = false;  // may be written, so `shadow` is kept
  // How often each 64-byte line was written, kept from the first scalar access on.
  std::unique_ptr<uint32_t[]> line_versions;
  // By line: what the core that last cleaned its scalar writes out of its cache knew then.
  std::unordered_map<uint64_t, Knowledge> released;
  int64_t clock_begin = -1;  // its place in the space of clock::GmAccess
};
constexpr uint64_t kLineBytes = 64;

// A place that issues an instruction.
struct Site {
  const char* name;
  const char* file;
  int line;
};

class Sites {
 public:
  uint32_t Id(const char* name, const Where& where);
  const Site& at(uint32_t id) const { return sites_[id]; }
  uint32_t count() const { return static_cast<uint32_t>(sites_.size()); }

 private:
  struct Slot {
    const char* name = nullptr;
    const char* file = nullptr;
    int line = 0;
    uint32_t id = 0;
  };
  Slot recent_[256];
  std::vector<Site> sites_{{"", "", 0}};
  std::unordered_map<std::string, uint32_t> ids_;
};

struct CrossFlag {
  struct Offer {
    Knowledge known;
    Where where;
    int mode;
  };
  std::deque<Knowledge> ready;  // the counter: what waits take
  std::deque<Offer> offered;    // sets of this core that still need the sets of others
  Where last_set;
};
constexpr int kCrossFlags = 16;

enum class CoreStatus : uint8_t { kReady, kWaiting, kEnded };

struct CoreSchedule {
  CoreStatus status = CoreStatus::kReady;
  std::string waits_for;  // text for the report of a deadlock
  Where where;
};

// A software SyncAll of one workspace has gathered this.
struct SoftBarrier {
  std::vector<Core*> waiting;
  uint64_t round = 0;
  int number = -1;      // among the workspaces of the launch
  Knowledge knowledge;  // of those that have arrived in this round
};

// A slot of IBSet and IBWait.
struct BlockSlot {
  bool raised = false;
  Knowledge knowledge;  // of who set or cleared it last
  std::vector<Core*> waiting;
};

// The turns of WaitPreBlock and NotifyNextBlock, by workspace: AIV cores in the order of their
// indices, round after round.
struct BlockTurns {
  uint64_t turn = 0;
  Knowledge knowledge;  // of the core that ended the last turn
  std::vector<Core*> waiting;
};

// The counters of a GroupBarrier, by workspace.
struct GroupRounds {
  uint64_t arrived = 0;
  uint64_t left = 0;               // waits that have ended
  std::vector<uint32_t> arrivals;  // what those that arrived knew
  std::vector<uint32_t> exits;     // what those whose wait has ended knew
  std::vector<Core*> waiting;
};

// One 64-byte line of GM in a core's data cache.
struct CacheLineState {
  uint32_t version;  // of the line's memory when it was filled
  bool dirty;
  GlobalBuffer* buffer;
  uint64_t line;  // index in the buffer
  Where where;    // of the last scalar write
};

// Lines that a core has invalidated, and what it looks at again and again.
struct Polling {
  bool entire = false;
  std::unordered_set<uint64_t> lines;
  uint64_t line = 0;
  uint32_t version = 0;
  uint64_t times = 0;
};

struct LaunchState {
  LaunchOptions options;
  KernelType type = KernelType::kUnset;
  uint32_t aiv_per_block = 1;
  std::vector<std::unique_ptr<Core>> cores;
  std::vector<CoreSchedule> schedule;
  std::vector<std::unique_ptr<GlobalBuffer>> buffers;
  std::vector<GlobalBuffer*> buffer_of_argument;  // null for one that shares another's memory
  Sites sites;

  bool probing = false;          // looks for the kernel type only
  std::set<std::string> probed;  // files that the kernel has come through on the way
  bool cancelled = false;        // after an error: every core unwinds
  std::string error;
  std::map<std::pair<std::string, std::pair<std::string, int>>, Warning> warnings;
  uint64_t random = 0;
  std::shared_ptr<clock::LaunchRecord> record;  // null where the launch is not timed

  std::vector<std::vector<CrossFlag>> cross_flags;  // [cores][kCrossFlags]
  std::map<const void*, SoftBarrier> soft_barriers;
  std::map<const void*, BlockSlot> block_slots;
  std::map<const void*, BlockTurns> block_turns;
  std::map<const void*, GroupRounds> group_rounds;
  const void* key_tiling = nullptr;  // type registered for this tiling key
  // Lines that a core holds, by core; the key is the line's address.
  std::vector<std::unordered_map<uint64_t, CacheLineState>> cached;
  std::vector<Polling> polling;  // by core
  std::vector<ImageBytes> spare_images;

  uint64_t Random() {  // splitmix64
    uint64_t z = (random += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
};

extern LaunchState* current_launch;

// Unwinds a core whose launch has failed, or the search for the kernel type.
struct Cancelled {};

// Everything the cores do from now on is recorded for modelled time, and, at the end, timed.
void StartRecord(LaunchState& launch, uint32_t aic_per_block, uint32_t aiv_per_block);
std::shared_ptr<const clock::Report> EndRecord(LaunchState& launch);

// Unwinds the running core.
[[noreturn]] void LeaveKernel();
// All that this core, after `pipe` has done its work, knows to be complete.
Knowledge Know(Core& core, int pipe);
// The scalar unit has waited: everything issued from now on comes after what is known.
void Learn(Core& core, const std::vector<uint32_t>& known);
// Lets another core run, now and then (GM is about to be touched) or until this one is woken.
void MaySwitch(Core& core);
// Lets the others run before a poll; fails where none is left that could change what it finds.
void SwitchForPoll(Core& core, const char* what, uint64_t line, uint32_t version,
                   const Where& where);
void WaitUntilWoken(Core& core, const std::string& what, const Where& where);
void Wake(Core& core);
// The type that a file of the kernel declares outside of it, or kUnset.
KernelType TypeOfFile(const LaunchState& launch);
// Ends the search for the kernel type: the kernel has begun its work.
void EndProbe();

std::string CoreName(const Core& core);
std::string PlaceName(const Core* core, const Where& where);
// Checks at the end of a core's run: flags left, state left.
void CheckEnd(Core& core);
void CheckUnitsEnd(const Core& core);
// Writes back what scalar stores left in the core's data cache.
void FlushCache(Core& core);
void CheckCrossFlagsEnd(LaunchState& launch);
// Bytes without a value that were stored and are left in an output.
void CheckCarriedEnd(LaunchState& launch);
void ReleaseMemories(Core& core);

}  // namespace twin
