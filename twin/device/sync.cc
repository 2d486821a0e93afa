// Synchronisation of the pipes of one core.
#include "twin/device/sync.h"

#include <algorithm>

#include "twin/device/launch_state.h"
#include "twin/device/tpipe.h"

namespace twin {
namespace {

struct Ends {
  pipe_t src;
  pipe_t dst;
  bool cube;    // legal on an AIC
  bool vector;  // legal on an AIV
};

// In the order of HardEvent.
constexpr Ends kEvents[] = {
    {PIPE_MTE2, PIPE_MTE1, true, false}, {PIPE_MTE1, PIPE_MTE2, true, false},
    {PIPE_MTE1, PIPE_M, true, false},    {PIPE_M, PIPE_MTE1, true, false},
    {PIPE_MTE2, PIPE_V, false, true},    {PIPE_V, PIPE_MTE2, false, true},
    {PIPE_MTE3, PIPE_V, false, true},    {PIPE_V, PIPE_MTE3, false, true},
    {PIPE_M, PIPE_V, false, false},      {PIPE_V, PIPE_M, false, false},
    {PIPE_V, PIPE_V, false, true},       {PIPE_MTE3, PIPE_MTE1, true, false},
    {PIPE_MTE1, PIPE_MTE3, true, false}, {PIPE_MTE1, PIPE_V, false, false},
    {PIPE_MTE2, PIPE_M, true, false},    {PIPE_M, PIPE_MTE2, true, false},
    {PIPE_V, PIPE_MTE1, false, false},   {PIPE_M, PIPE_FIX, true, false},
    {PIPE_FIX, PIPE_M, true, false},     {PIPE_MTE3, PIPE_MTE2, true, true},
    {PIPE_MTE2, PIPE_MTE3, true, true},  {PIPE_S, PIPE_V, false, true},
    {PIPE_V, PIPE_S, false, true},       {PIPE_S, PIPE_MTE2, true, true},
    {PIPE_MTE2, PIPE_S, true, true},     {PIPE_S, PIPE_MTE3, true, true},
    {PIPE_MTE3, PIPE_S, true, true},     {PIPE_MTE2, PIPE_FIX, true, false},
    {PIPE_FIX, PIPE_MTE2, true, false},  {PIPE_FIX, PIPE_S, true, false},
    {PIPE_M, PIPE_S, true, false},       {PIPE_FIX, PIPE_MTE3, true, false},
    {PIPE_MTE1, PIPE_FIX, true, false},  {PIPE_FIX, PIPE_MTE1, true, false},
    {PIPE_FIX, PIPE_FIX, true, false},
};
static_assert(sizeof(kEvents) / sizeof(kEvents[0]) == static_cast<size_t>(HardEvent::MAX),
              "one row for every event");

const Ends& CheckEvent(const Core& core, const char* what, HardEvent event, int id,
                       const Where& where) {
  if (event >= HardEvent::MAX) Fail(what, where, "no such event");
  const Ends& ends = kEvents[static_cast<int>(event)];
  if (!(core.cube ? ends.cube : ends.vector)) {
    Fail(what, where,
         Format("HardEvent::%s does not exist on an %s", EventName(event),
                core.cube ? "AIC" : "AIV"));
  }
  if (id < 0 || id >= kEventIds) {
    Fail(what, where,
         Format("event id %d of HardEvent::%s, expected 0 to 7", id, EventName(event)));
  }
  return ends;
}

// Whether the TPipe reserved this id, or gives it out next.
bool HandedOut(const Core& core, HardEvent event, int id) {
  if (core.pipe == nullptr) return false;
  const unsigned taken = core.pipe->state_.taken_events[static_cast<int>(event)];
  return ((taken >> id) & 1) != 0 || (taken != 0xff && __builtin_ctz(~taken) == id);
}

bool IsBarrier(const Ends& ends) { return ends.src == ends.dst; }

}  // namespace

void SetFlag(HardEvent event, int id, const Where& where) {
  Core& core = ThisCore("SetFlag", where);
  if (core.launch->probing) EndProbe();
  const Ends& ends = CheckEvent(core, "SetFlag", event, id, where);
  if (IsBarrier(ends)) {
    Barrier(ends.src, where);
    return;
  }
  FlagSlot& slot = core.flags[static_cast<int>(event)][id];
  if (id >= 6 && !HandedOut(core, event, id)) {
    Warn("event id 6 or 7", where,
         Format("SetFlag<HardEvent::%s>(%d): ids 6 and 7 are reserved for the system",
                EventName(event), id));
  }
  if (!slot.sets.empty()) {
    Warn(
        "flag set twice", where,
        Format("SetFlag<HardEvent::%s>(%d) is set already, at %s:%d, and nothing has waited for it",
               EventName(event), id, slot.sets.back().where.file, slot.sets.back().where.line));
  }
  const int p = PipeIndex(ends.src);
  RecordSync(core, clock::OpKind::kSetFlag, "SetFlag", where, p, PipeIndex(ends.dst), id);
  JoinScalar(core, p);
  slot.sets.emplace_back();
  FlagSlot::Set& set = slot.sets.back();
  std::copy(std::begin(core.seen[p]), std::end(core.seen[p]), set.clock);
  // Everything that the pipe was given before is complete.
  set.clock[p] = core.issued[p];
  set.where = where;
}

void WaitFlag(HardEvent event, int id, const Where& where) {
  Core& core = ThisCore("WaitFlag", where);
  if (core.launch->probing) EndProbe();
  const Ends& ends = CheckEvent(core, "WaitFlag", event, id, where);
  if (IsBarrier(ends)) return;
  FlagSlot& slot = core.flags[static_cast<int>(event)][id];
  if (slot.sets.empty()) {
    Fail("WaitFlag", where,
         Format("deadlock: WaitFlag<HardEvent::%s>(%d) without a SetFlag before it",
                EventName(event), id));
  }
  const int q = PipeIndex(ends.dst);
  RecordSync(core, clock::OpKind::kWaitFlag, "WaitFlag", where, PipeIndex(ends.src), q, id);
  JoinScalar(core, q);
  const FlagSlot::Set& set = slot.sets.front();
  for (int r = 0; r < kPipes; ++r) core.seen[q][r] = std::max(core.seen[q][r], set.clock[r]);
  slot.sets.erase(slot.sets.begin());
}

void Barrier(pipe_t pipe, const Where& where) {
  Core& core = ThisCore("PipeBarrier", where);
  if (core.launch->probing) EndProbe();
  if (pipe == PIPE_ALL) {
    RecordSync(core, clock::OpKind::kBarrierAll, "PipeBarrier", where, 0, 0, 0);
    for (int p = 0; p < kPipes; ++p) {
      std::copy(std::begin(core.issued), std::end(core.issued), core.seen[p]);
    }
    return;
  }
  const int p = pipe == PIPE_FIX || pipe <= PIPE_MTE3 ? PipeIndex(pipe) : -1;
  const bool legal =
      p > 0 &&
      (core.cube ? pipe != PIPE_V : pipe == PIPE_V || pipe == PIPE_MTE2 || pipe == PIPE_MTE3);
  if (!legal) {
    Fail("PipeBarrier", where,
         Format("pipe %d (%s) does not exist on an %s, or takes no barrier", static_cast<int>(pipe),
                PipeName(p), core.cube ? "AIC" : "AIV"));
  }
  RecordSync(core, clock::OpKind::kBarrier, "PipeBarrier", where, p, 0, 0);
  JoinScalar(core, p);
  core.seen[p][p] = core.issued[p];
}

HardEvent EventOf(pipe_t src, pipe_t dst, const Where& where) {
  for (int i = 0; i < static_cast<int>(HardEvent::MAX); ++i) {
    if (kEvents[i].src == src && kEvents[i].dst == dst) return static_cast<HardEvent>(i);
  }
  Fail("set_flag/wait_flag", where, "no event between these pipes");
}

void CheckEnd(Core& core) {
  for (int event = 0; event < static_cast<int>(HardEvent::MAX); ++event) {
    for (int id = 0; id < kEventIds; ++id) {
      const FlagSlot& slot = core.flags[event][id];
      if (slot.sets.empty()) continue;
      const char* name = EventName(static_cast<HardEvent>(event));
      Fail("SetFlag", slot.sets.front().where,
           Format("unmatched flag: SetFlag<HardEvent::%s>(%d) has no WaitFlag when the kernel ends",
                  name, id));
    }
  }
  CheckUnitsEnd(core);
  const Registers& r = core.registers;
  if (r.atomic != kAtomicNone) {
    Warn("state left at the end of the kernel", r.atomic_where,
         "atomic stores are still on when the kernel ends: SetAtomicNone");
  }
  if (r.counter_mode) {
    Warn("state left at the end of the kernel", {},
         "the mask is still in counter mode when the kernel ends: SetMaskNorm");
  }
  if (core.pipe != nullptr) {
    Warn("state left at the end of the kernel", core.pipe->state_.where,
         "the TPipe is not destroyed when the kernel ends");
  }
  FlushCache(core);
}

}  // namespace twin
