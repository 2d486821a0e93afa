#include "twin/clock/replay.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>

#include "twin/clock/price.h"

namespace twin::clock {
namespace {

constexpr int kFlags = 17;  // between cores, and one of SyncAll with a workspace
constexpr int kSoftFlag = 16;
constexpr int kUnits = 128;         // fractals of L0C
constexpr size_t kCachedLines = 8;  // of GM that scalar accesses find again

// A time, and the operation whose end it is.
struct Mark {
  double time = 0;
  OpRef op;
};

void Raise(Mark* mark, double time, OpRef op) {
  if (time > mark->time || mark->op.op == kNoOp) *mark = {time, op};
}

struct PipeState {
  double free = 0;
  Mark done;  // the latest end
  Mark gate;  // what flags and barriers hold it back for
  Cause gate_cause = Cause::kFlag;
  int gate_pipe = 0;        // of kFlag, the flag's first pipe
  std::deque<Mark> starts;  // of what may still stand in its queue
  uint32_t last = kNoOp;
};

struct CoreState {
  uint32_t index = 0;
  const CoreRecord* record = nullptr;
  CoreTime* time = nullptr;
  size_t at = 0;
  double scalar = 0;
  PipeState pipes[kPipeCount];
  std::map<uint32_t, std::deque<Mark>> flags;
  std::deque<Mark> offered[kFlags];  // own sets whose group is not complete
  std::deque<Mark> ready[kFlags];
  std::vector<Mark> written, cleared;  // units of L0C: by Mmad with unit flag 3, by Fixpipe
  std::deque<uint64_t> lines;
  bool started = false, waiting = false, ended = false;
};

class Machine {
 public:
  Machine(const LaunchRecord& record, const Options& options, Replay* replay);
  void Run();

 private:
  // Later first in the queue's order, so the earliest is on top; ties by core.
  using Turn = std::pair<double, uint32_t>;

  void StartBlock(uint32_t block, double at);
  void Push(const CoreState& core);
  void End(CoreState& core);
  // False when the core waits for another.
  bool Step(CoreState& core);
  void Instruction(CoreState& core, const Op& op, Moment* m);
  void ScalarAccess(CoreState& core, const Op& op, Moment* m);
  double UnitsReady(CoreState& core, const Op& op, double start, double busy, Mark* which);
  void MarkUnits(CoreState& core, const Op& op, double start, double busy);
  void AfterPipe(const CoreState& core, int pipe, Cause cause, Moment* m);
  void Flag(CoreState& core, const Op& op, Moment* m);
  void Barrier(CoreState& core, const Op& op, Moment* m);
  void CrossSet(CoreState& core, const Op& op, Moment* m);
  // Waits for what other cores have raised.
  bool Take(CoreState& core, int flag, Moment* m);
  bool SoftSync(CoreState& core, const Op& op, Moment* m);
  void Deliver(CoreState& core, int flag, const Mark& mark);
  OpRef Here(const CoreState& core) const { return {static_cast<uint32_t>(core.at), core.index}; }
  void Gate(CoreState& core, int pipe, double time, OpRef op, Cause cause, int from);

  const LaunchRecord& record_;
  const Costs& costs_;
  Replay* replay_;
  Prices prices_;
  MemorySystem memory_;
  std::vector<CoreState> cores_;
  std::vector<uint32_t> left_;  // cores of a block that have not ended
  uint32_t next_block_ = 0;
  std::map<int, std::vector<uint32_t>> soft_;  // cores that have arrived, by group
  std::priority_queue<Turn, std::vector<Turn>, std::greater<Turn>> turns_;
};

uint32_t Resident(const LaunchRecord& record, const Chip& chip) {
  uint32_t blocks = ~0u;
  if (record.aic_per_block > 0) blocks = chip.aic_cores / record.aic_per_block;
  if (record.aiv_per_block > 0) blocks = std::min(blocks, chip.aiv_cores / record.aiv_per_block);
  return std::max(1u, std::min(blocks, record.blocks));
}

Machine::Machine(const LaunchRecord& record, const Options& options, Replay* replay)
    : record_(record),
      costs_(options.costs),
      replay_(replay),
      prices_(options, record),
      memory_(options, record.gm_bytes),
      cores_(record.cores.size()),
      left_(record.blocks, 0) {
  replay->cores.resize(cores_.size());
  for (uint32_t i = 0; i < cores_.size(); ++i) {
    CoreState& core = cores_[i];
    core.index = i;
    core.record = record.cores[i].get();
    core.time = &replay->cores[i];
    core.time->moments.resize(core.record->ops.size());
    ++left_[core.record->block];
    if (core.record->cube) {
      core.written.resize(kUnits);
      core.cleared.resize(kUnits);
    }
  }
  replay->resident_blocks = Resident(record, options.chip);
  replay->waves = (record.blocks + replay->resident_blocks - 1) / replay->resident_blocks;
}

void Machine::StartBlock(uint32_t block, double at) {
  for (CoreState& core : cores_) {
    if (core.record->block != block) continue;
    core.started = true;
    core.scalar = at;
    core.time->begin = at;
    for (PipeState& pipe : core.pipes) pipe.free = at;
    Push(core);
  }
}

void Machine::Push(const CoreState& core) { turns_.emplace(core.scalar, core.index); }

void Machine::Run() {
  while (next_block_ < replay_->resident_blocks) StartBlock(next_block_++, 0);
  for (;;) {
    while (!turns_.empty()) {
      CoreState& core = cores_[turns_.top().second];
      turns_.pop();
      // It may go on while it stays the earliest.
      while (!core.ended && !core.waiting &&
             (turns_.empty() || Turn(core.scalar, core.index) <= turns_.top())) {
        if (core.at == core.record->ops.size()) {
          End(core);
        } else if (!Step(core)) {
          core.waiting = true;
        }
      }
      if (!core.ended && !core.waiting) Push(core);
    }
    if (next_block_ >= record_.blocks) break;
    // The blocks that run wait for one that would come in a later wave.
    replay_->all_blocks_needed = true;
    StartBlock(next_block_++, 0);
  }
  for (const CoreTime& core : replay_->cores) replay_->cycles = std::max(replay_->cycles, core.end);
  replay_->memory = memory_.totals();
  replay_->hbm_rate = memory_.hbm_rate();
  replay_->l2_rate = memory_.l2_rate();
}

void Machine::End(CoreState& core) {
  core.ended = true;
  double end = core.scalar;
  for (const PipeState& pipe : core.pipes) end = std::max({end, pipe.free, pipe.done.time});
  core.time->end = end;
  const uint32_t block = core.record->block;
  if (--left_[block] != 0 || next_block_ >= record_.blocks) return;
  for (const CoreState& other : cores_) {
    if (other.record->block == block) end = std::max(end, other.time->end);
  }
  StartBlock(next_block_++, end);
}

bool Machine::Step(CoreState& core) {
  const Op& op = core.record->ops[core.at];
  Moment& m = core.time->moments[core.at];
  m.issue = core.scalar;
  bool done = true;
  switch (op.kind) {
    case OpKind::kInstruction:
      op.pipe == kS ? ScalarAccess(core, op, &m) : Instruction(core, op, &m);
      break;
    case OpKind::kSetFlag:
    case OpKind::kWaitFlag:
      Flag(core, op, &m);
      break;
    case OpKind::kBarrier:
    case OpKind::kBarrierAll:
      Barrier(core, op, &m);
      break;
    case OpKind::kCrossSet:
      CrossSet(core, op, &m);
      break;
    case OpKind::kCrossWait:
      done = Take(core, op.id, &m);
      break;
    case OpKind::kSoftSync:
      done = SoftSync(core, op, &m);
      break;
  }
  if (done) ++core.at;
  return done;
}

void Machine::Gate(CoreState& core, int pipe, double time, OpRef op, Cause cause, int from) {
  PipeState& p = core.pipes[pipe];
  if (time <= p.gate.time && p.gate.op.op != kNoOp) return;
  p.gate = {time, op};
  p.gate_cause = cause;
  p.gate_pipe = from;
}

void Machine::Instruction(CoreState& core, const Op& op, Moment* m) {
  PipeState& pipe = core.pipes[op.pipe];
  PipeUse& use = core.time->pipes[op.pipe];
  // The scalar unit goes on as long as the pipe's queue takes what it issues.
  if (pipe.starts.size() >= static_cast<size_t>(costs_.queue_depth)) {
    const Mark room = pipe.starts.front();
    pipe.starts.pop_front();
    if (room.time > core.scalar) {
      core.time->pipes[kS].waits[static_cast<int>(Cause::kQueue)] += room.time - core.scalar;
      m->issue_cause = Cause::kQueue;
      m->issue_after = room.op;
      m->issue = core.scalar = room.time;
    }
  }
  core.scalar += costs_.scalar_issue;
  const GmAccess* accesses = core.record->accesses.data() + op.first_access;
  const Price price = prices_.Of(op, accesses);
  double start = core.scalar;
  m->start_cause = Cause::kIssue;
  if (pipe.free >= start) {
    start = pipe.free;
    m->start_cause = Cause::kPipe;
    m->start_after = {pipe.last, core.index};
  }
  if (pipe.gate.op.op != kNoOp && pipe.gate.time > start) {
    start = pipe.gate.time;
    m->start_cause = pipe.gate_cause;
    m->start_after = pipe.gate.op;
  }
  if (op.unit_flag != 0) {
    Mark which;
    const double ready = UnitsReady(core, op, start, price.busy, &which);
    if (ready > start) {
      start = ready;
      m->start_cause = Cause::kUnitFlag;
      m->start_after = which.op;
    }
  }
  m->start = start;
  m->free = start + price.busy;
  if (op.accesses > 0) {
    m->free =
        std::max(m->free, memory_.Run(start, accesses, op.accesses, price.rate, price.stretch));
  }
  m->end = m->free + price.latency;
  if (op.unit_flag == 3) MarkUnits(core, op, start, price.busy);
  ++use.instructions;
  const double idle = std::max(0.0, start - pipe.free);
  use.waits[static_cast<int>(m->start_cause)] += idle;
  if (m->start_cause == Cause::kFlag) use.flag_waits[pipe.gate_pipe] += idle;
  use.busy += m->free - start;
  use.ideal += price.ideal;
  if (op.pipe == kV) {
    use.conflicts += price.busy - price.ideal - costs_.vector_start - costs_.vector_end;
  }
  for (int i = 0; i < op.accesses; ++i) {
    use.gm_bytes += static_cast<double>(accesses[i].rows) * accesses[i].row_bytes;
  }
  pipe.free = m->free;
  pipe.last = static_cast<uint32_t>(core.at);
  Raise(&pipe.done, m->end, Here(core));
  pipe.starts.push_back({start, Here(core)});
}

void Machine::ScalarAccess(CoreState& core, const Op& op, Moment* m) {
  m->start = core.scalar;
  double cycles = costs_.scalar_local;
  const GmAccess* accesses = core.record->accesses.data() + op.first_access;
  for (int i = 0; i < op.accesses; ++i) {
    const uint64_t line = accesses[i].begin / 64;
    const bool held = std::find(core.lines.begin(), core.lines.end(), line) != core.lines.end();
    memory_.ScalarMiss(accesses[i]);
    cycles = held ? costs_.scalar_cached : costs_.load_latency;
    if (held) continue;
    core.lines.push_back(line);
    if (core.lines.size() > kCachedLines) core.lines.pop_front();
  }
  core.scalar += cycles;
  m->free = m->end = core.scalar;
  PipeUse& use = core.time->pipes[kS];
  ++use.instructions;
  use.busy += cycles;
  Raise(&core.pipes[kS].done, m->end, Here(core));
}

// The pipes pass through the units in the same order, so one that reads may follow close behind
// one that writes.
double Machine::UnitsReady(CoreState& core, const Op& op, double start, double busy, Mark* which) {
  const std::vector<Mark>& marks = op.pipe == kM ? core.cleared : core.written;
  const double count = std::max(1, op.unit_end - op.unit_begin);
  for (int unit = op.unit_begin; unit < op.unit_end && unit < kUnits; ++unit) {
    const double reached = busy * (unit - op.unit_begin) / count;
    if (marks[unit].time - reached > start) {
      start = marks[unit].time - reached;
      *which = marks[unit];
    }
  }
  return start;
}

void Machine::MarkUnits(CoreState& core, const Op& op, double start, double busy) {
  std::vector<Mark>& marks = op.pipe == kM ? core.written : core.cleared;
  const double count = std::max(1, op.unit_end - op.unit_begin);
  for (int unit = op.unit_begin; unit < op.unit_end && unit < kUnits; ++unit) {
    marks[unit] = {start + busy * (unit + 1 - op.unit_begin) / count, Here(core)};
  }
}

// An operation in the pipe's queue that takes no time of its own: when all that the pipe was given
// before is complete, and what holds the pipe back lets it pass.
void Machine::AfterPipe(const CoreState& core, int pipe, Cause cause, Moment* m) {
  const PipeState& p = core.pipes[pipe];
  m->start = core.scalar;
  m->start_cause = Cause::kIssue;
  for (const Mark* mark : {&p.done, &p.gate}) {
    if (pipe == kS || mark->op.op == kNoOp || mark->time <= m->start) continue;
    m->start = mark->time;
    m->start_cause = cause;
    m->start_after = mark->op;
  }
  m->free = m->end = m->start;
}

void Machine::Flag(CoreState& core, const Op& op, Moment* m) {
  core.scalar += costs_.flag;
  const uint32_t key = (uint32_t{op.pipe} << 24) | (uint32_t{op.other} << 16) | op.id;
  if (op.kind == OpKind::kSetFlag) {
    AfterPipe(core, op.pipe, Cause::kFlag, m);
    core.flags[key].push_back({m->end, Here(core)});
    return;
  }
  std::deque<Mark>& sets = core.flags[key];
  m->start = m->free = m->end = core.scalar;
  if (sets.empty()) return;
  const Mark mark = sets.front();
  sets.pop_front();
  if (op.other != kS) {
    Gate(core, op.other, mark.time + costs_.flag, mark.op, Cause::kFlag, op.pipe);
    return;
  }
  if (mark.time > core.scalar) {
    core.time->pipes[kS].waits[static_cast<int>(Cause::kFlag)] += mark.time - core.scalar;
    core.time->pipes[kS].flag_waits[op.pipe] += mark.time - core.scalar;
    m->issue_cause = Cause::kFlag;
    m->issue_after = mark.op;
    core.scalar = mark.time + costs_.flag;
  }
  m->issue = m->start = m->free = m->end = core.scalar;
}

void Machine::Barrier(CoreState& core, const Op& op, Moment* m) {
  core.scalar += costs_.flag;
  if (op.kind == OpKind::kBarrier) {
    AfterPipe(core, op.pipe, Cause::kBarrier, m);
    m->free = m->end = m->start + costs_.barrier;
    Gate(core, op.pipe, m->end, Here(core), Cause::kBarrier, 0);
    return;
  }
  Mark latest;
  for (const PipeState& pipe : core.pipes) {
    for (const Mark* mark : {&pipe.done, &pipe.gate}) {
      if (mark->op.op != kNoOp && mark->time > latest.time) latest = *mark;
    }
  }
  if (latest.time > core.scalar) {
    core.time->pipes[kS].waits[static_cast<int>(Cause::kBarrier)] += latest.time - core.scalar;
    m->issue_cause = Cause::kBarrier;
    m->issue_after = latest.op;
    core.scalar = latest.time;
  }
  m->issue = m->start = core.scalar;
  core.scalar += costs_.barrier;
  m->free = m->end = core.scalar;
}

void Machine::Deliver(CoreState& core, int flag, const Mark& mark) {
  core.ready[flag].push_back(mark);
  if (!core.waiting) return;
  core.waiting = false;
  Push(core);
}

void Machine::CrossSet(CoreState& core, const Op& op, Moment* m) {
  core.scalar += costs_.flag;
  AfterPipe(core, op.pipe, Cause::kCross, m);
  const int flag = op.id, mode = op.other;
  core.offered[flag].push_back({m->end, Here(core)});
  const CoreRecord& me = *core.record;
  std::vector<CoreState*> setters, waiters;
  for (CoreState& other : cores_) {
    const bool same_kind = other.record->cube == me.cube;
    const bool same_block = other.record->block == me.block;
    if (mode == 0 ? same_kind : mode == 1 ? same_block && !other.record->cube : same_block) {
      if (mode != 2 || same_kind) setters.push_back(&other);
      if (mode != 2 || !same_kind) waiters.push_back(&other);
    }
  }
  for (const CoreState* setter : setters) {
    if (setter->offered[flag].empty()) return;
  }
  Mark last;
  for (CoreState* setter : setters) {
    Raise(&last, setter->offered[flag].front().time, setter->offered[flag].front().op);
    setter->offered[flag].pop_front();
  }
  last.time += costs_.exchange;
  for (CoreState* waiter : waiters) Deliver(*waiter, flag, last);
}

bool Machine::Take(CoreState& core, int flag, Moment* m) {
  std::deque<Mark>& ready = core.ready[flag];
  if (ready.empty()) return false;
  const Mark mark = ready.front();
  ready.pop_front();
  if (mark.time > core.scalar) {
    core.time->pipes[kS].waits[static_cast<int>(Cause::kCross)] += mark.time - core.scalar;
    m->issue_cause = Cause::kCross;
    m->issue_after = mark.op;
    core.scalar = mark.time;
  }
  m->issue = m->start = core.scalar;
  core.scalar += costs_.flag;
  m->free = m->end = core.scalar;
  return true;
}

bool Machine::SoftSync(CoreState& core, const Op& op, Moment* m) {
  if (core.ready[kSoftFlag].empty()) {
    std::vector<uint32_t>& arrived = soft_[op.other];
    arrived.push_back(core.index);
    if (arrived.size() < op.id) return false;
    Mark last;
    for (uint32_t index : arrived) Raise(&last, cores_[index].scalar, Here(cores_[index]));
    last.time += costs_.soft_sync;
    for (uint32_t index : arrived) Deliver(cores_[index], kSoftFlag, last);
    arrived.clear();
  }
  return Take(core, kSoftFlag, m);
}

}  // namespace

const char* CauseName(Cause cause) {
  static const char* const names[] = {"start",   "scalar issue", "pipe busy",  "flag",
                                      "barrier", "unit flag",    "other core", "queue full"};
  return names[static_cast<int>(cause)];
}

Replay Run(const LaunchRecord& record, const Options& options) {
  Replay replay;
  Machine(record, options, &replay).Run();
  return replay;
}

}  // namespace twin::clock
