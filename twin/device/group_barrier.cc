#include "twin/device/group_barrier.h"

#include <algorithm>
#include <cstring>

#include "twin/device/launch_state.h"
#include "twin/device/sync.h"
#include "twin/device/tensor.h"
#include "twin/device/tpipe.h"

namespace twin {
namespace {

// One data block of UB for each of the cores there may be, at the end of UB. The first word of each
// is 1, and MTE3 adds it to a counter.
constexpr uint32_t kMostCores = 50;
constexpr uint32_t kOnes = 192 * 1024 - kMostCores * kBlockBytes;
constexpr uint32_t kLine = 512;  // of GM, for each core that looks at a counter
constexpr uint32_t kLeft = 64;   // bytes from the counter of arrivals to that of waits
constexpr uint32_t kMostRounds = 1048575;

AscendC::LocalTensor<int32_t> Ones(const Where& where) {
  return AscendC::LocalTensor<int32_t>(TPosition::VECOUT, kOnes, kMostCores * 8, where);
}

AscendC::GlobalTensor<int32_t> Counters(uint8_t* workspace) {
  AscendC::GlobalTensor<int32_t> counters;
  counters.SetGlobalBuffer(reinterpret_cast<int32_t*>(workspace));
  return counters;
}

GroupRounds& RoundsOf(Core& core, const Group& group) {
  GroupRounds& rounds = core.launch->group_rounds[group.workspace];
  if (rounds.arrivals.empty()) {
    const size_t size = core.launch->cores.size() * (kPipes + 1);
    rounds.arrivals.resize(size);
    rounds.exits.resize(size);
  }
  return rounds;
}

// Adds one to the counters at `offset` and tells all that look at them.
void Count(Core& core, const Group& group, const char* name, uint32_t offset, uint64_t& counter,
           std::vector<uint32_t>& known, const Where& where) {
  if (core.pipe == nullptr) Fail(name, where, "GroupBarrier needs a TPipe");
  const int8_t id = FetchEvent(*core.pipe, HardEvent::S_MTE3, where);
  SetFlag(HardEvent::S_MTE3, id, where);
  WaitFlag(HardEvent::S_MTE3, id, where);
  const uint64_t lines = std::max(group.arrive, group.wait);
  const auto ones = Ones(where);
  const auto counters = Counters(group.workspace);
  Instr instr(name, PIPE_MTE3, where, {{"groupWorkspace", counters}, {"ones", ones}});
  instr.InPipeOrder();
  instr.Read(1, Rows{0, lines, 4, kBlockBytes});
  instr.WriteAtomic(0, Rows{offset, lines, 4, kLine});
  for (uint64_t i = 0; i < lines; ++i) {
    int32_t one, value;
    std::memcpy(&one, instr.Data<uint8_t>(1) + i * kBlockBytes, sizeof(one));
    instr.Check(one == 1,
                "the kernel has written into the last 1600 bytes of UB, which GroupBarrier uses");
    uint8_t* at = group.workspace + offset + i * kLine;
    std::memcpy(&value, at, sizeof(value));
    instr.Check(value == static_cast<int32_t>(counter),
                "a counter of groupWorkspace holds %d, expected %d: it has to be zero before the "
                "first use and is for this GroupBarrier alone",
                value, static_cast<int32_t>(counter));
    ++value;
    std::memcpy(at, &value, sizeof(value));
  }
  ++counter;
  const Knowledge mine = Know(core, PipeIndex(PIPE_MTE3));
  for (size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], (*mine)[i]);
}

void WakeAll(GroupRounds& rounds) {
  for (Core* other : rounds.waiting) Wake(*other);
  rounds.waiting.clear();
}

void CheckIndex(const char* name, const char* field, uint32_t index, uint32_t size,
                const Group& group, const Where& where) {
  if (index >= size)
    Fail(name, where, Format("%s is %u, expected 0 to %u", field, index, size - 1));
  if (group.round > kMostRounds) {
    Fail(name, where, Format("a GroupBarrier has at most %u rounds", kMostRounds));
  }
}

}  // namespace

void BeginGroup(const Group& group, const Where& where) {
  const char* name = "GroupBarrier";
  Core& core = ThisCore(name, where);
  if (core.launch->probing) EndProbe();
  if (core.cube) return;
  const uint32_t blocks = core.launch->options.block_dim;
  for (const auto& [field, size] : {std::pair<const char*, uint32_t>{"arriveSizeIn", group.arrive},
                                    {"waitSizeIn", group.wait}}) {
    if (size < 1 || size > blocks) {
      Fail(name, where, Format("%s is %u, expected 1 to %u (GetBlockNum)", field, size, blocks));
    }
  }
  if (reinterpret_cast<uintptr_t>(group.workspace) % kLine != 0) {
    Fail(name, where, "groupWorkspace is not at a multiple of 512 bytes");
  }
  const auto ones = Ones(where);
  Instr instr(name, PIPE_S, where, {{"ones", ones}});
  instr.Write(0, Rows{0, kMostCores, 4, kBlockBytes});
  for (uint32_t i = 0; i < kMostCores; ++i) {
    const int32_t one = 1;
    std::memcpy(instr.Data<uint8_t>(0) + i * kBlockBytes, &one, sizeof(one));
  }
}

void ArriveAt(Group& group, uint32_t index, const Where& where) {
  const char* name = "GroupBarrier::Arrive";
  Core& core = ThisCore(name, where);
  if (core.cube) return;
  CheckIndex(name, "arriveIndex", index, group.arrive, group, where);
  GroupRounds& rounds = RoundsOf(core, group);
  if (group.round > 1) {
    while (rounds.left < uint64_t{group.round - 1} * group.wait) {
      rounds.waiting.push_back(&core);
      WaitUntilWoken(core, "the GroupBarrier's waits of the round before", where);
    }
    Learn(core, rounds.exits);
  }
  Count(core, group, name, 0, rounds.arrived, rounds.arrivals, where);
  WakeAll(rounds);
  ++group.round;
  group.arrived = true;
}

void WaitFor(Group& group, uint32_t index, const Where& where) {
  const char* name = "GroupBarrier::Wait";
  Core& core = ThisCore(name, where);
  if (core.cube) return;
  CheckIndex(name, "waitIndex", index, group.wait, group, where);
  GroupRounds& rounds = RoundsOf(core, group);
  const uint64_t round = group.arrived ? group.round - 1 : group.round;
  while (rounds.arrived < round * group.arrive) {
    rounds.waiting.push_back(&core);
    WaitUntilWoken(core, "arrivals at the GroupBarrier", where);
  }
  Learn(core, rounds.arrivals);
  Count(core, group, name, kLeft, rounds.left, rounds.exits, where);
  WakeAll(rounds);
  if (!group.arrived) ++group.round;
  group.arrived = false;
}

}  // namespace twin
