// Synchronisation between cores.
#include <algorithm>
#include <cstring>

#include "twin/device/launch_state.h"
#include "twin/device/sync.h"

namespace twin {
namespace {

constexpr int kStride = kPipes + 1;
constexpr uint32_t kMostSets = 15;  // a counter of four bits
constexpr int kMostUserFlag = 10;

bool IsMix(KernelType type) { return type != KernelType::kAivOnly && type != KernelType::kAicOnly; }
bool HasBoth(KernelType type) {
  return type == KernelType::kMixAic11 || type == KernelType::kMixAic12;
}

void MergeInto(std::vector<uint32_t>* to, const std::vector<uint32_t>& from) {
  for (size_t i = 0; i < from.size(); ++i) (*to)[i] = std::max((*to)[i], from[i]);
}

void Deliver(Core& to, int flag, const Knowledge& known, const Where& where) {
  CrossFlag& slot = to.launch->cross_flags[to.index][flag];
  if (slot.ready.size() == kMostSets) {
    Fail("CrossCoreSetFlag", where,
         Format("flag %d of %s has been set 15 times and not waited for; its counter has 4 bits",
                flag, CoreName(to).c_str()));
  }
  slot.ready.push_back(known);
  slot.last_set = where;
  Wake(to);
}

// Cores whose sets count together, and those whose counters rise when all have set.
struct Parties {
  std::vector<Core*> setters;
  std::vector<Core*> waiters;
};

Parties PartiesOf(const Core& core, int mode) {
  Parties parties;
  for (const auto& other : core.launch->cores) {
    const bool same_kind = other->cube == core.cube, same_block = other->block == core.block;
    if (mode == 0 && same_kind) {
      parties.setters.push_back(other.get());
      parties.waiters.push_back(other.get());
    } else if (mode == 1 && same_block && !other->cube) {
      parties.setters.push_back(other.get());
      parties.waiters.push_back(other.get());
    } else if (mode == 2 && same_block) {
      (same_kind ? parties.setters : parties.waiters).push_back(other.get());
    }
  }
  return parties;
}

void CheckMode(const Core& core, const char* what, int mode, const Where& where) {
  const LaunchState& launch = *core.launch;
  if (!IsMix(launch.type) && !launch.options.pure_cross_core) {
    Fail(what, where,
         "cross-core flags do not work in a kernel of type AIV_ONLY or AIC_ONLY: declare "
         "KERNEL_TYPE_MIX_AIV_1_0, MIX_AIC_1_0, MIX_AIC_1_1 or MIX_AIC_1_2");
  }
  if (mode > 0 && !HasBoth(launch.type)) {
    Fail(what, where,
         Format("mode %d needs a kernel of type KERNEL_TYPE_MIX_AIC_1_1 or MIX_AIC_1_2", mode));
  }
  if (mode == 1 && core.cube) Fail(what, where, "mode 1 is for the AIV cores of a block");
}

}  // namespace

Knowledge Know(Core& core, int pipe) {
  LaunchState& launch = *core.launch;
  auto known = std::make_shared<std::vector<uint32_t>>(launch.cores.size() * kStride, 0u);
  if (core.remote != nullptr) {
    std::copy(core.remote.get(), core.remote.get() + known->size(), known->begin());
  }
  JoinScalar(core, pipe);
  uint32_t* own = known->data() + size_t{core.index} * kStride;
  std::copy(std::begin(core.seen[pipe]), std::end(core.seen[pipe]), own);
  own[pipe] = core.issued[pipe];
  // Scalar accesses to GM are done; the data cache is checked on its own.
  own[PipeIndex(PIPE_S)] = core.issued[PipeIndex(PIPE_S)];
  return known;
}

void Learn(Core& core, const std::vector<uint32_t>& known) {
  if (core.remote == nullptr) core.remote.reset(new uint32_t[known.size()]());
  for (size_t i = 0; i < known.size(); ++i) {
    core.remote[i] = std::max(core.remote[i], known[i]);
  }
  const uint32_t* own = known.data() + size_t{core.index} * kStride;
  for (int p = 1; p < kPipes; ++p) core.seen[0][p] = std::max(core.seen[0][p], own[p]);
}

void CrossCoreSetByUser(int mode, pipe_t pipe, int flag, const Where& where) {
  if (flag > kMostUserFlag) {
    Warn("cross-core flag above 10", where,
         Format("CrossCoreSetFlag(%d): SyncAll uses the flags 11 to 14, the Matmul library 15",
                flag));
  }
  CrossCoreSet(mode, pipe, flag, where);
}

void CrossCoreSet(int mode, pipe_t pipe, int flag, const Where& where) {
  Core& core = ThisCore("CrossCoreSetFlag", where);
  LaunchState& launch = *core.launch;
  if (launch.probing) EndProbe();
  CheckMode(core, "CrossCoreSetFlag", mode, where);
  if (flag < 0 || flag >= kCrossFlags) {
    Fail("CrossCoreSetFlag", where, Format("flag %d, expected 0 to 15", flag));
  }
  const bool has_pipe =
      core.cube ? pipe != PIPE_V : pipe == PIPE_V || pipe == PIPE_MTE2 || pipe == PIPE_MTE3;
  if (!has_pipe) {
    Fail("CrossCoreSetFlag", where,
         Format("an %s has no %s", core.cube ? "AIC" : "AIV", PipeName(PipeIndex(pipe))));
  }
  CrossFlag& mine = launch.cross_flags[core.index][flag];
  if (!mine.offered.empty() && mine.offered.back().mode != mode) {
    Fail("CrossCoreSetFlag", where,
         Format("flag %d is used in mode %d while a set in mode %d (%s:%d) is not complete", flag,
                mode, mine.offered.back().mode, mine.offered.back().where.file,
                mine.offered.back().where.line));
  }
  if (mine.offered.size() == kMostSets) {
    Fail("CrossCoreSetFlag", where,
         Format("flag %d has been set 15 times by this core while others "
                "have not set it",
                flag));
  }
  RecordSync(core, clock::OpKind::kCrossSet, "CrossCoreSetFlag", where, PipeIndex(pipe), mode,
             flag);
  mine.offered.push_back({Know(core, PipeIndex(pipe)), where, mode});
  const Parties parties = PartiesOf(core, mode);
  for (const Core* setter : parties.setters) {
    const CrossFlag& slot = launch.cross_flags[setter->index][flag];
    if (slot.offered.empty() || slot.offered.front().mode != mode) return;
  }
  auto all = std::make_shared<std::vector<uint32_t>>(launch.cores.size() * kStride, 0u);
  for (const Core* setter : parties.setters) {
    CrossFlag& slot = launch.cross_flags[setter->index][flag];
    MergeInto(all.get(), *slot.offered.front().known);
    slot.offered.pop_front();
  }
  for (Core* waiter : parties.waiters) Deliver(*waiter, flag, all, where);
}

void CrossCoreWait(int flag, const Where& where) {
  Core& core = ThisCore("CrossCoreWaitFlag", where);
  LaunchState& launch = *core.launch;
  if (launch.probing) EndProbe();
  CheckMode(core, "CrossCoreWaitFlag", 0, where);
  if (flag < 0 || flag >= kCrossFlags) {
    Fail("CrossCoreWaitFlag", where, Format("flag %d, expected 0 to 15", flag));
  }
  RecordSync(core, clock::OpKind::kCrossWait, "CrossCoreWaitFlag", where, 0, 0, flag);
  CrossFlag& slot = launch.cross_flags[core.index][flag];
  while (slot.ready.empty()) {
    WaitUntilWoken(core, Format("cross-core flag %d", flag), where);
  }
  Learn(core, *slot.ready.front());
  slot.ready.pop_front();
}

void HardSyncAll(bool vector_only, const Where& where) {
  // Flags that CANN's SyncAll uses.
  constexpr int kVectorAll = 14, kVectorToCube = 12, kCubeAll = 11, kCubeToVector = 13;
  Core& core = ThisCore("SyncAll", where);
  if (core.launch->probing) EndProbe();
  CheckMode(core, "SyncAll", vector_only ? 0 : 2, where);
  Barrier(PIPE_ALL, where);
  if (vector_only) {
    CrossCoreSet(0, PIPE_MTE3, kVectorAll, where);
    CrossCoreWait(kVectorAll, where);
  } else if (core.cube) {
    CrossCoreWait(kVectorToCube, where);
    CrossCoreSet(0, PIPE_FIX, kCubeAll, where);
    CrossCoreWait(kCubeAll, where);
    CrossCoreSet(2, PIPE_MTE3, kCubeToVector, where);
  } else {
    CrossCoreSet(2, PIPE_MTE3, kVectorToCube, where);
    CrossCoreWait(kCubeToVector, where);
  }
}

void SoftSyncAll(const Operand& gm, const Operand& ub, int32_t used_cores, const Where& where) {
  Core& core = ThisCore("SyncAll", where);
  LaunchState& launch = *core.launch;
  if (launch.probing) EndProbe();
  if (core.cube) return;
  Barrier(PIPE_ALL, where);
  uint32_t vector_cores = 0;
  for (const auto& other : launch.cores) vector_cores += !other->cube;
  const uint32_t used = used_cores > 0 ? static_cast<uint32_t>(used_cores) : vector_cores;
  const uint32_t me = core.block * launch.aiv_per_block + core.sub_block;
  if (used_cores < 0 || used > vector_cores) {
    Fail("SyncAll", where,
         Format("usedCores is %d, the kernel has %u AIV cores", used_cores, vector_cores));
  }
  if (me >= used) {
    Fail("SyncAll", where,
         Format("usedCores is %u, so only the first cores take part, not this one", used));
  }
  // Every core has a slot of one data block in GM and reads all slots into UB.
  const uint64_t slot = uint64_t{me} * kBlockBytes;
  {
    Instr store("SyncAll", PIPE_S, where, {gm, ub});
    store.Check(ub.local->bytes >= used * kBlockBytes,
                "ubWorkspace has %u bytes, expected at least %u", ub.local->bytes,
                used * kBlockBytes);
    store.Read(0, Rows{slot, 1, 4, 0});
    int32_t round;
    std::memcpy(&round, gm.global->address + slot, sizeof(round));
    SoftBarrier& barrier = launch.soft_barriers[gm.global->address];
    store.Check(round == static_cast<int32_t>(barrier.round),
                "the slot of this core in gmWorkspace holds %d, expected %d: gmWorkspace has to be "
                "zero before the first SyncAll and is not for other use",
                round, static_cast<int32_t>(barrier.round));
    ++round;
    store.Write(0, Rows{slot, 1, 4, 0});
    std::memcpy(gm.global->address + slot, &round, sizeof(round));
    store.Write(1, Bytes{0, used * kBlockBytes});
  }
  SoftBarrier& barrier = launch.soft_barriers[gm.global->address];
  if (barrier.number < 0) barrier.number = static_cast<int>(launch.soft_barriers.size());
  RecordSync(core, clock::OpKind::kSoftSync, "SyncAll", where, 0, barrier.number,
             static_cast<int>(used));
  if (barrier.knowledge == nullptr) {
    barrier.knowledge = std::make_shared<std::vector<uint32_t>>(launch.cores.size() * kStride, 0u);
  }
  const Knowledge knowledge = barrier.knowledge;
  MergeInto(knowledge.get(), *Know(core, PipeIndex(PIPE_MTE3)));
  const uint64_t round = barrier.round;
  barrier.waiting.push_back(&core);
  if (barrier.waiting.size() == used) {
    ++barrier.round;
    barrier.knowledge = nullptr;
    for (Core* other : barrier.waiting) Wake(*other);
    barrier.waiting.clear();
  }
  while (barrier.round == round) WaitUntilWoken(core, "the other cores of SyncAll", where);
  Learn(core, *knowledge);
  Barrier(PIPE_ALL, where);
}

void BlockFlag(const char* name, const Operand& gm, const Operand& ub, bool vector_only,
               int32_t block, int32_t event, bool set, const Where& where) {
  Core& core = ThisCore(name, where);
  LaunchState& launch = *core.launch;
  if (launch.probing) EndProbe();
  if (core.cube) return;
  Barrier(PIPE_ALL, where);
  const int64_t blocks = int64_t{launch.options.block_dim} * (vector_only ? 1 : 2);
  uint8_t* address;
  {
    Instr instr(name, PIPE_S, where, {gm, ub});
    CheckField(instr, "blockIdx", block, 0, blocks - 1);
    CheckField(instr, "eventID", event, 0, 65535);
    const uint64_t slot = static_cast<uint64_t>(blocks * event + block) * kBlockBytes;
    const GlobalView& view = *gm.global;
    if (view.buffer == nullptr) view.buffer = FindGlobalBuffer(view.address + slot);
    address = view.address + slot;
    const GlobalBuffer* buffer = view.buffer;
    instr.Check(buffer != nullptr && address + kBlockBytes <= buffer->address + buffer->bytes,
                "gmWorkspace needs 32 bytes for each block and event, the slot at byte %llu lies "
                "outside of it",
                static_cast<unsigned long long>(slot));
    instr.Write(1, Bytes{0, kBlockBytes});
  }
  BlockSlot& slot = launch.block_slots[address];
  if (slot.knowledge == nullptr) {
    // The host clears the workspace, and the slot is as the host left it.
    int32_t value;
    std::memcpy(&value, address, sizeof(value));
    slot.raised = value == 1;
    slot.knowledge = Know(core, PipeIndex(PIPE_MTE3));
  }
  while (slot.raised == set) {
    slot.waiting.push_back(&core);
    WaitUntilWoken(core, Format("%s of block %d, event %d", set ? "IBWait" : "IBSet", block, event),
                   where);
  }
  Learn(core, *slot.knowledge);
  slot.knowledge = Know(core, PipeIndex(PIPE_MTE3));
  slot.raised = set;
  const int32_t value = set ? 1 : 0;
  std::memcpy(address, &value, sizeof(value));
  for (Core* other : slot.waiting) Wake(*other);
  slot.waiting.clear();
  Barrier(PIPE_ALL, where);
}

void BlockTurn(const char* name, const Operand& gm, const Operand& ub, TurnStep step,
               const Where& where) {
  Core& core = ThisCore(name, where);
  LaunchState& launch = *core.launch;
  if (launch.probing) EndProbe();
  if (core.cube) return;
  Barrier(PIPE_ALL, where);
  uint64_t cores = 0;
  for (const auto& other : launch.cores) cores += !other->cube;
  const uint64_t me = core.block * launch.aiv_per_block + core.sub_block;
  const uint64_t slots = uint64_t{launch.options.block_dim} * kBlockBytes;
  {
    Instr instr(name, PIPE_S, where, {gm, ub});
    const GlobalView& view = *gm.global;
    if (view.buffer == nullptr) view.buffer = FindGlobalBuffer(view.address);
    instr.Check(
        view.buffer != nullptr && view.address + slots <= view.buffer->address + view.buffer->bytes,
        "gmWorkspace needs 32 bytes for each block, %llu", static_cast<unsigned long long>(slots));
    instr.Write(1, Bytes{0, slots + kBlockBytes});
  }
  const bool known = launch.block_turns.count(gm.global->address) != 0;
  BlockTurns& turns = launch.block_turns[gm.global->address];
  if (step == TurnStep::kInit) {
    Barrier(PIPE_ALL, where);
    return;
  }
  if (!known) Fail(name, where, "InitDetermineComputeWorkspace comes first");
  if (step == TurnStep::kNotify && turns.turn % cores != me) {
    Fail(name, where, "this block has not waited for its turn: WaitPreBlock comes first");
  }
  while (turns.turn % cores != me) {
    turns.waiting.push_back(&core);
    WaitUntilWoken(core, "NotifyNextBlock of the block before", where);
  }
  if (step == TurnStep::kWait) {
    if (turns.knowledge != nullptr) Learn(core, *turns.knowledge);
  } else {
    turns.knowledge = Know(core, PipeIndex(PIPE_MTE3));
    ++turns.turn;
    for (Core* other : turns.waiting) Wake(*other);
    turns.waiting.clear();
  }
  Barrier(PIPE_ALL, where);
}

void CheckCrossFlagsEnd(LaunchState& launch) {
  for (const auto& core : launch.cores) {
    for (int flag = 0; flag < kCrossFlags; ++flag) {
      const CrossFlag& slot = launch.cross_flags[core->index][flag];
      if (slot.ready.empty() && slot.offered.empty()) continue;
      const Where& where = slot.ready.empty() ? slot.offered.front().where : slot.last_set;
      const std::string state = slot.ready.empty()
                                    ? "was set by this core, but not by all that have to set it"
                                    : "was raised and never waited for by this core";
      throw Error(PlaceName(core.get(), where) + ": CrossCoreSetFlag: unmatched flag: flag " +
                  std::to_string(flag) + " " + state);
    }
  }
}

int64_t BlockNum(const Where& where) {
  return ThisCore("GetBlockNum", where).launch->options.block_dim;
}
int64_t BlockIdx(const Where& where) {
  const Core& core = ThisCore("GetBlockIdx", where);
  return core.cube ? core.block : core.block * core.launch->aiv_per_block + core.sub_block;
}
int64_t SubBlockIdx(const Where& where) { return ThisCore("GetSubBlockIdx", where).sub_block; }
int64_t SubBlockNum(const Where& where) {
  const Core& core = ThisCore("GetSubBlockNum", where);
  return core.cube ? 1 : core.launch->aiv_per_block;
}
int64_t TaskRatio(const Where& where) {
  const Core& core = ThisCore("GetTaskRatio", where);
  return core.cube ? 1 : core.launch->aiv_per_block;
}

}  // namespace twin
