#include "twin/device/instr.h"

#include <algorithm>
#include <cstring>

#include "twin/device/launch_state.h"

namespace twin {
namespace {

constexpr int kS = 0;
constexpr int kV = PipeIndex(PIPE_V);

uint32_t LaneMask(uint32_t element, uint64_t lanes_of_block) {
  uint32_t mask = 0;
  for (uint32_t lane = 0; lane * element < kBlockBytes; ++lane) {
    if ((lanes_of_block >> lane) & 1) {
      const uint64_t bytes = ((1ull << element) - 1) << (lane * element);
      mask |= static_cast<uint32_t>(bytes);
    }
  }
  return mask;
}

// The position of a queue whose EnQue and DeQue order the two pipes, or nothing.
const char* PositionBetween(int earlier, int now) {
  const auto are = [=](pipe_t a, pipe_t b) {
    return earlier == PipeIndex(a) && now == PipeIndex(b);
  };
  if (are(PIPE_MTE2, PIPE_V)) return "VECIN";
  if (are(PIPE_V, PIPE_MTE3)) return "VECOUT";
  if (are(PIPE_MTE2, PIPE_MTE1)) return "A1 or B1";
  if (are(PIPE_MTE1, PIPE_M)) return "A2 or B2";
  if (are(PIPE_M, PIPE_FIX)) return "CO1";
  return nullptr;
}

// Names of the events between two pipes, for advice; `buffer` is what both pipes touch.
std::string Advice(const Core& core, int earlier, const Ticket& now, uint16_t earlier_core,
                   const Buffer* buffer) {
  if (earlier_core != core.index) {
    return "the two cores are not ordered: CrossCoreSetFlag/CrossCoreWaitFlag or SyncAll between "
           "them";
  }
  if (earlier == now.pipe) return Format("PipeBarrier<%s> between them", PipeName(earlier));
  const std::string flags =
      Format("SetFlag/WaitFlag<HardEvent::%s_%s>", PipeName(earlier) + 5, PipeName(now.pipe) + 5);
  const char* position = PositionBetween(earlier, now.pipe);
  if (buffer == nullptr || !buffer->in_queue || position == nullptr) {
    return flags + " or a queue between them";
  }
  const char* own = PositionName(buffer->position);
  if (std::strstr(position, own) != nullptr) {
    return flags + " or EnQue and DeQue of the tensor's queue between them";
  }
  return flags + Format(
                     " or a queue of position %s between them; that of the tensor has position "
                     "%s, which orders other pipes",
                     position, own);
}

}  // namespace

Lanes Lanes::First(uint32_t element, uint64_t lanes, uint32_t repeats, uint32_t block_stride,
                   uint32_t repeat_stride) {
  Lanes result;
  uint64_t left = lanes * element;
  for (uint32_t& mask : result.mask) {
    const uint64_t here = std::min<uint64_t>(left, kBlockBytes);
    mask = here == 0 ? 0 : ~0u >> (kBlockBytes - here);
    left -= here;
  }
  result.repeats = repeats;
  result.block_stride = block_stride;
  result.repeat_stride = repeat_stride;
  return result;
}

Lanes Lanes::Bits(uint32_t element, const uint64_t* bits, uint32_t repeats, uint32_t block_stride,
                  uint32_t repeat_stride) {
  Lanes result;
  const uint32_t per_block = kBlockBytes / element;
  for (uint32_t block = 0; block < 8; ++block) {
    const uint32_t lane = block * per_block;
    uint64_t lanes = bits[lane / 64] >> (lane % 64);
    if (per_block < 64) lanes &= (1ull << per_block) - 1;
    result.mask[block] = LaneMask(element, lanes);
  }
  result.repeats = repeats;
  result.block_stride = block_stride;
  result.repeat_stride = repeat_stride;
  return result;
}

Instr::Instr(const char* name, pipe_t pipe, const Where& where,
             std::initializer_list<Operand> operands)
    : name_(name), pipe_(pipe), where_(where), core_(&ThisCore(name, where)) {
  for (const Operand& operand : operands) operands_[count_++] = operand;
  LaunchState& launch = *core_->launch;
  if (__builtin_expect(launch.probing, 0)) EndProbe();
  const int p = PipeIndex(pipe);
  const bool legal =
      core_->cube ? pipe != PIPE_V : pipe != PIPE_M && pipe != PIPE_MTE1 && pipe != PIPE_FIX;
  if (__builtin_expect(!legal, 0)) {
    Fail(Format("%s is a pipe of %s; this core is an %s", PipeName(p),
                core_->cube ? "vector cores (AIV)" : "cube cores (AIC)",
                core_->cube ? "AIC" : "AIV"));
  }
  core_->last_name = name;
  core_->last_where = where;
  JoinScalar(*core_, p);
  ticket_.seq = ++core_->issued[p];
  ticket_.site = launch.sites.Id(name, where);
  ticket_.core = core_->index;
  ticket_.pipe = static_cast<uint8_t>(p);
  ticket_.in_order = p == kS || (launch.options.auto_sync && pipe == PIPE_V);
  ticket_.dirty = false;
  ticket_.polls = false;
  ticket_.seen = core_->seen[p];
  ticket_.remote = core_->remote.get();
  ++core_->counters[p].instructions;
  if (__builtin_expect(core_->record != nullptr, 0)) BeginRecord();
}

void Instr::SetOperand(int index, const Operand& operand) {
  operands_[index] = operand;
  count_ = std::max(count_, index + 1);
}

void Instr::KnowComplete(pipe_t pipe, uint32_t seq) {
  if (ticket_.seen != own_seen_) {
    std::copy(ticket_.seen, ticket_.seen + kPipes + 1, own_seen_);
    ticket_.seen = own_seen_;
  }
  uint32_t& known = own_seen_[PipeIndex(pipe)];
  known = std::max(known, seq);
}

void Instr::Learn(const uint32_t* known) {
  uint32_t* const pipe = core_->seen[ticket_.pipe];
  for (int p = 0; p < kPipes; ++p) {
    pipe[p] = std::max(pipe[p], known[p]);
    if (ticket_.seen == own_seen_) own_seen_[p] = std::max(own_seen_[p], known[p]);
  }
}

void Instr::CopyClock(uint32_t* clock) const {
  std::copy(ticket_.seen, ticket_.seen + kPipes, clock);
  clock[ticket_.pipe] = ticket_.seq;
}

void Instr::CountRepeats(uint64_t repeats) {
  core_->counters[ticket_.pipe].repeats += repeats;
  if (__builtin_expect(core_->record != nullptr, 0)) core_->record->Repeats(repeats);
}

void Instr::Fail(const std::string& message) const {
  std::string text = PlaceName(core_, where_) + ": " + name_ + "(";
  bool first = true;
  for (int i = 0; i < count_; ++i) {
    // An operand that this form of the instruction does not have.
    if (operands_[i].local == nullptr && operands_[i].global == nullptr) continue;
    text += (first ? "" : ", ") + Describe(i);
    first = false;
  }
  Raise(text + "): " + message);
}

void Instr::Warn(const char* kind, const std::string& message) const {
  twin::Warn(kind, where_, std::string(name_) + ": " + message);
}

std::string Instr::Describe(int operand) const {
  const Operand& o = operands_[operand];
  if (o.local != nullptr) {
    return Format("%s: LocalTensor<%s> %s %s [%u, %u)", o.role, o.dtype,
                  PositionName(o.local->position), MemoryName(o.local->memory()), o.local->address,
                  o.local->address + o.local->bytes);
  }
  const GlobalView& g = *o.global;
  if (g.buffer == nullptr) {
    return Format("%s: GlobalTensor<%s> at %p", o.role, o.dtype, static_cast<void*>(g.address));
  }
  return Format("%s: GlobalTensor<%s> %s + %lld bytes", o.role, o.dtype, g.buffer->name.c_str(),
                static_cast<long long>(g.address - g.buffer->address));
}

uint8_t* Instr::Address(int operand) const {
  if (__builtin_expect(images_, 0)) return ImageAddress(operand);
  const Operand& o = operands_[operand];
  if (o.global != nullptr) return o.global->address;
  return UseMemory(*core_, o.local->memory()).data + o.local->address;
}

void Instr::InMemory(int operand, std::initializer_list<Hardware> memories) {
  const Operand& o = operands_[operand];
  const Hardware memory = o.global != nullptr ? Hardware::GM : o.local->memory();
  std::string names;
  for (Hardware legal : memories) {
    if (legal == memory) return;
    names += (names.empty() ? "" : " or ") + std::string(MemoryName(legal));
  }
  Fail(Format("%s lies in %s; this instruction takes %s", o.role, MemoryName(memory),
              names.c_str()));
}

void Instr::BeyondTensor(int operand, uint64_t room, uint64_t end) const {
  const std::string message =
      Format("%s has %llu bytes from its address on, the access ends at byte %llu",
             operands_[operand].role, static_cast<unsigned long long>(room),
             static_cast<unsigned long long>(end));
  if (!core_->launch->options.warn_beyond_tensor) {
    Fail("out of bounds: " + message + Switch("WARN_BEYOND_TENSOR", "a warning"));
  }
  Warn("beyond the end of a tensor", message);
}

const LocalView& Instr::Local(int operand, uint64_t begin, uint64_t end, uint32_t align) const {
  const Operand& o = operands_[operand];
  const LocalView& view = *o.local;
  const Hardware memory = view.memory();
  Check(view.position < TPosition::MAX && memory != Hardware::GM,
        "%s was never allocated: take it from a TQue, a TBuf or an address", o.role);
  Check((memory == Hardware::UB) != core_->cube, "%s lies in %s, which an %s does not have", o.role,
        MemoryName(memory), core_->cube ? "AIC" : "AIV");
  const Buffer* buffer = view.buffer;
  if (buffer != nullptr) {
    Check(buffer->alive || (buffer->released && core_->pipe == nullptr),
          "%s belongs to a TPipe that was reset or destroyed (%s:%d)", o.role, buffer->where.file,
          buffer->where.line);
    Check(!buffer->in_queue ||
              (buffer->state != AscendC::TBufState::FREE && buffer->generation == view.generation),
          "%s is used after FreeTensor (%s:%d)", o.role, buffer->where.file, buffer->where.line);
  }
  if (view.outside && !core_->launch->options.warn_beyond_tensor) {
    Fail(Format("%s begins beyond the end of the tensor it was taken from", o.role) +
         Switch("WARN_BEYOND_TENSOR", "a warning where the access stays in the tensor's memory"));
  }
  if (align > 1) {
    Check((view.address + begin) % align == 0,
          "%s is at byte %llu of %s; the address has to be a multiple of %u", o.role,
          static_cast<unsigned long long>(view.address + begin), MemoryName(memory), align);
  }
  uint64_t room = view.bytes;
  if (buffer != nullptr) {
    room = std::min<uint64_t>(room, buffer->address + buffer->bytes - view.address);
  }
  if (__builtin_expect(end > room, 0)) BeyondTensor(operand, room, end);
  Check(view.address + end <= MemoryBytes(memory),
        "out of bounds: %s has %u bytes, the access ends at %llu", MemoryName(memory),
        MemoryBytes(memory), static_cast<unsigned long long>(view.address + end));
  return view;
}

void Instr::FailConflict(int operand, AccessKind kind, const Conflict& conflict,
                         uint64_t base) const {
  const Operand& o = operands_[operand];
  const uint64_t first = conflict.granule * kBlockBytes + __builtin_ctz(conflict.bytes);
  const uint64_t last = conflict.granule * kBlockBytes + 31 - __builtin_clz(conflict.bytes);
  const char* memory =
      o.global != nullptr ? o.global->buffer->name.c_str() : MemoryName(o.local->memory());
  const std::string bytes =
      Format("bytes [%llu, %llu) of %s, %llu after the start of %s",
             static_cast<unsigned long long>(first), static_cast<unsigned long long>(last + 1),
             memory, static_cast<unsigned long long>(first - base), o.role);
  if (conflict.kind == Conflict::kUninitialised) {
    Fail(Uninitialised(operand, conflict, bytes));
  }
  const Entry& e = conflict.other;
  const Site& site = core_->launch->sites.at(e.site);
  const Core& other = *core_->launch->cores[e.core];
  const std::string earlier =
      Format("%s on %s%s at %s:%d", site.name, PipeName(e.pipe),
             &other == core_ ? "" : (" of " + CoreName(other)).c_str(), site.file, site.line);
  if (conflict.kind == Conflict::kDirty) {
    Fail(
        Format("%s were written by %s and are still in that core's data cache: "
               "DataCacheCleanAndInvalid first",
               bytes.c_str(), earlier.c_str()));
  }
  const char* hazard = kind == kRead     ? "read after write"
                       : e.kind == kRead ? "write after read"
                                         : "write after write";
  const bool compiler_may =
      !core_->cube && e.core == core_->index && o.local != nullptr &&
      ((e.pipe == kV && ticket_.pipe == kV) || (e.pipe == kS) != (ticket_.pipe == kS));
  Fail(
      Format("hazard, %s: %s, %s by %s, which is not known to be complete; %s", hazard,
             bytes.c_str(), e.kind == kRead ? "read" : "written", earlier.c_str(),
             Advice(*core_, e.pipe, ticket_, e.core, o.local != nullptr ? o.local->buffer : nullptr)
                 .c_str()) +
      (compiler_may ? Switch("AUTO_SYNC", "what CANN's compiler inserts") : ""));
}

// An error adds this where a switch of programs with ICPU_RUN_KF would lift it.
std::string Instr::Switch(const char* name, const char* makes) const {
  if (!core_->launch->options.names_switches) return "";
  return Format("; ASCENDC_TWIN_%s=1 makes it %s", name, makes);
}

// With that option CANN's compiler lets the scalar unit of a vector core and another pipe wait for
// one another where an element of a tensor is read or written.
bool Instr::OrderedByCompiler(const Conflict& conflict) {
  const Entry& e = conflict.other;
  const bool inserts = core_->launch->options.auto_sync && !core_->cube &&
                       conflict.kind == Conflict::kHazard && e.core == core_->index &&
                       (e.pipe == kS) != (ticket_.pipe == kS);
  if (!inserts) return false;
  uint32_t known[kPipes] = {};
  known[e.pipe] = e.seq;
  Learn(known);
  return true;
}

void Instr::Excuse(Shadow* shadow, int operand, AccessKind kind, const Conflict& conflict,
                   uint64_t base) {
  if (OrderedByCompiler(conflict)) return;
  if (conflict.kind == Conflict::kUninitialised && core_->launch->options.carry_uninitialised) {
    // An atomic store may add to what an earlier one has left without a value, not to nothing.
    const bool carries =
        kind == kRead ? (carries_ >> operand & 1) != 0 : shadow->Origin(conflict.granule) != 0;
    if (carries) {
      Carry(shadow, operand, conflict);
      return;
    }
  }
  const bool warns = core_->launch->options.warn_uninitialised;
  if (!warns || conflict.kind != Conflict::kUninitialised) {
    FailConflict(operand, kind, conflict, base);
  }
  Warn("uninitialised read", Format("%s holds no value in what is read", operands_[operand].role));
  shadow->at(conflict.granule).written |= conflict.bytes;
}

void Instr::Access(int operand, AccessKind kind, const Rows& rows, uint32_t align) {
  if (rows.rows == 0 || rows.row_bytes == 0) return;
  if (operands_[operand].global != nullptr) {
    AccessGlobal(operand, kind, rows);
    return;
  }
  const uint64_t end = rows.begin + (rows.rows - 1) * rows.pitch + rows.row_bytes;
  const LocalView& view = Local(operand, rows.begin, end, align);
  Shadow& shadow = UseMemory(*core_, view.memory()).shadow;
  if (__builtin_expect(missing_ != nullptr, 0) && kind != kRead) {
    missing_->Written(&shadow, nullptr, view.address + rows.begin, view.address + end);
  }
  Conflict conflict;
  for (uint64_t row = 0; row < rows.rows; ++row) {
    const uint64_t begin = view.address + rows.begin + row * rows.pitch;
    uint64_t at = begin;
    const auto access = [&] {
      const uint64_t bytes = begin + rows.row_bytes - at;
      return kind == kRead ? shadow.ReadRange(ticket_, at, bytes, &conflict)
                           : shadow.WriteRange(ticket_, at, bytes, kind, &conflict);
    };
    while (__builtin_expect(!access(), 0)) {
      Excuse(&shadow, operand, kind, conflict, view.address);
      at = std::max(begin, conflict.granule * kBlockBytes);
    }
  }
  PipeCounters& counters = core_->counters[ticket_.pipe];
  (kind == kRead ? counters.read_bytes : counters.written_bytes) += rows.rows * rows.row_bytes;
  if (__builtin_expect(core_->record != nullptr, 0)) {
    core_->record->Local(operand, kind != kRead, view.address + rows.begin, rows.rows,
                         rows.row_bytes);
  }
}

void Instr::AccessLanes(int operand, AccessKind kind, const Lanes& lanes, uint32_t align) {
  if (lanes.repeats == 0) return;
  uint64_t end = 0;
  uint64_t bytes = 0;
  for (uint32_t block = 0; block < 8; ++block) {
    if (lanes.mask[block] == 0) continue;
    end = std::max<uint64_t>(end, block * lanes.block_stride * uint64_t{kBlockBytes} + 32 -
                                      __builtin_clz(lanes.mask[block]));
    bytes += __builtin_popcount(lanes.mask[block]);
  }
  if (bytes == 0) return;
  end += lanes.begin + uint64_t{lanes.repeats - 1} * lanes.repeat_stride * kBlockBytes;
  const LocalView& view = Local(operand, lanes.begin, end, align);
  const uint64_t start = view.address + lanes.begin;
  Shadow& shadow = UseMemory(*core_, view.memory()).shadow;
  if (__builtin_expect(missing_ != nullptr, 0) && kind != kRead) {
    missing_->Written(&shadow, nullptr, start, view.address + end);
  }
  Conflict conflict;
  for (uint32_t repeat = 0; repeat < lanes.repeats; ++repeat) {
    const uint64_t base = start + uint64_t{repeat} * lanes.repeat_stride * kBlockBytes;
    for (uint32_t block = 0; block < 8; ++block) {
      const uint32_t mask = lanes.mask[block];
      if (mask == 0) continue;
      const uint64_t at = base + uint64_t{block} * lanes.block_stride * kBlockBytes;
      const auto access = [&] {
        if (at % kBlockBytes != 0) return AccessShifted(shadow, kind, at, mask, &conflict);
        const uint64_t granule = at / kBlockBytes;
        return kind == kRead ? shadow.Read(ticket_, granule, mask, &conflict)
                             : shadow.Write(ticket_, granule, mask, kind, &conflict);
      };
      while (__builtin_expect(!access(), 0)) Excuse(&shadow, operand, kind, conflict, view.address);
    }
  }
  PipeCounters& counters = core_->counters[ticket_.pipe];
  (kind == kRead ? counters.read_bytes : counters.written_bytes) += bytes * lanes.repeats;
  if (__builtin_expect(core_->record != nullptr, 0)) {
    clock::UbAccess access{static_cast<uint32_t>(start / kBlockBytes),
                           lanes.repeats,
                           lanes.block_stride,
                           lanes.repeat_stride,
                           0,
                           kind != kRead};
    for (int block = 0; block < 8; ++block) {
      access.blocks |= static_cast<uint8_t>((lanes.mask[block] != 0) << block);
    }
    core_->record->Lanes(operand, access, bytes * lanes.repeats);
  }
}

// A block that does not begin on a multiple of 32 lies in two granules.
bool Instr::AccessShifted(Shadow& shadow, AccessKind kind, uint64_t at, uint32_t mask,
                          Conflict* conflict) {
  const uint64_t granule = at / kBlockBytes;
  const uint64_t wide = static_cast<uint64_t>(mask) << (at % kBlockBytes);
  for (int part = 0; part < 2; ++part) {
    const uint32_t here = static_cast<uint32_t>(wide >> (32 * part));
    if (here == 0) continue;
    const bool clean = kind == kRead ? shadow.Read(ticket_, granule + part, here, conflict)
                                     : shadow.Write(ticket_, granule + part, here, kind, conflict);
    if (!clean) return false;
  }
  return true;
}

void Instr::UseAsScratch(int operand, const Bytes& bytes) {
  const bool in_order = ticket_.in_order;
  ticket_.in_order = true;
  Write(operand, bytes);
  ticket_.in_order = in_order;
  Scramble(operand, bytes);
}

void Instr::Scramble(int operand, const Bytes& bytes) {
  const LocalView& view = *operands_[operand].local;
  UseMemory(*core_, view.memory()).shadow.MarkUnwritten(view.address + bytes.begin, bytes.count);
}

void Instr::ReadHeld(int operand, const Bytes& bytes, uint32_t align) {
  if (bytes.count == 0) return;
  if (operands_[operand].global != nullptr) {
    Read(operand, bytes, align);
    return;
  }
  const LocalView& view = Local(operand, bytes.begin, bytes.begin + bytes.count, align);
  Shadow& shadow = UseMemory(*core_, view.memory()).shadow;
  const uint64_t begin = view.address + bytes.begin, end = begin + bytes.count;
  Conflict conflict;
  for (uint64_t at = begin; at < end; at = (at / kBlockBytes + 1) * kBlockBytes) {
    const uint64_t first = at % kBlockBytes;
    const uint64_t count = std::min<uint64_t>(end - at, kBlockBytes - first);
    const uint32_t wanted = (~0u >> (kBlockBytes - count)) << first;
    const uint32_t mask = shadow.at(at / kBlockBytes).written & wanted;
    if (mask != 0 && !shadow.Read(ticket_, at / kBlockBytes, mask, &conflict)) {
      FailConflict(operand, kRead, conflict, view.address);
    }
  }
  core_->counters[ticket_.pipe].read_bytes += bytes.count;
  if (__builtin_expect(core_->record != nullptr, 0)) {
    core_->record->Local(operand, false, begin, 1, bytes.count);
  }
}

uint32_t Instr::Held(int operand, uint64_t begin) const {
  const Operand& o = operands_[operand];
  if (o.global != nullptr) return ~0u;
  Shadow& shadow = UseMemory(*core_, o.local->memory()).shadow;
  return shadow.at((o.local->address + begin) / kBlockBytes).written;
}

void Instr::Read(int operand, const Bytes& bytes, uint32_t align) {
  Access(operand, kRead, {bytes.begin, 1, bytes.count, 0}, align);
}
void Instr::Read(int operand, const Rows& rows, uint32_t align) {
  Access(operand, kRead, rows, align);
}
void Instr::Read(int operand, const Lanes& lanes, uint32_t align) {
  AccessLanes(operand, kRead, lanes, align);
}
void Instr::Write(int operand, const Bytes& bytes, uint32_t align) {
  Access(operand, kWrite, {bytes.begin, 1, bytes.count, 0}, align);
}
void Instr::Write(int operand, const Rows& rows, uint32_t align) {
  Access(operand, kWrite, rows, align);
}
void Instr::Write(int operand, const Lanes& lanes, uint32_t align) {
  AccessLanes(operand, kWrite, lanes, align);
}

}  // namespace twin
