// Accesses of instructions to global memory.
#include <algorithm>

#include "twin/device/instr.h"
#include "twin/device/launch_state.h"
#include "twin/device/tensor.h"

namespace twin {
namespace {

bool Writable(Role role) { return role != Role::kInput && role != Role::kTiling; }

void BumpLines(GlobalBuffer& buffer, uint64_t begin, uint64_t end) {
  for (uint64_t line = begin / kLineBytes; line <= (end - 1) / kLineBytes; ++line) {
    ++buffer.line_versions[line];
  }
}

bool IsFloat(const char* dtype) { return dtype[0] == 'f' || dtype[0] == 'h' || dtype[0] == 'b'; }

}  // namespace

void Instr::AccessGlobal(int operand, AccessKind kind, const Rows& rows) {
  const Operand& o = operands_[operand];
  const GlobalView& view = *o.global;
  if (view.buffer == nullptr) view.buffer = FindGlobalBuffer(view.address + rows.begin);
  Check(view.buffer != nullptr, "out of bounds: %s points into none of the kernel's buffers",
        o.role);
  GlobalBuffer& buffer = *view.buffer;
  const int64_t start = view.address - buffer.address;
  const uint64_t span = (rows.rows - 1) * rows.pitch + rows.row_bytes;
  const int64_t first = start + static_cast<int64_t>(rows.begin);
  if (__builtin_expect(first < 0 || first + span > buffer.bytes, 0)) {
    Fail(Format("out of bounds: the access to %s covers bytes [%lld, %lld) of %s, which has %llu",
                o.role, static_cast<long long>(first), static_cast<long long>(first + span),
                buffer.name.c_str(), static_cast<unsigned long long>(buffer.bytes)));
  }
  if (kind != kRead && !Writable(buffer.role)) {
    Fail(Format("writes to %s, which is %s of the kernel; only outputs and workspace are written",
                buffer.name.c_str(), buffer.role == Role::kInput ? "an input" : "the tiling data"));
  }
  if (view.sized && rows.begin + span > view.bytes) {
    Warn("beyond the size given to SetGlobalBuffer",
         Format("%s of %s ends %llu bytes after the tensor's size",
                kind == kRead ? "a read" : "a write", o.role,
                static_cast<unsigned long long>(rows.begin + span - view.bytes)));
  }
  PipeCounters& counters = core_->counters[ticket_.pipe];
  (kind == kRead ? counters.gm_read_bytes : counters.gm_written_bytes) +=
      rows.rows * rows.row_bytes;
  if (__builtin_expect(core_->record != nullptr, 0)) RecordGlobal(kind, buffer, first, rows);
  if (!buffer.tracked) return;
  buffer.read |= kind == kRead;
  if (__builtin_expect(missing_ != nullptr, 0) && kind != kRead) {
    missing_->Written(&buffer.shadow, &buffer, first, first + span);
  }

  // Scalar accesses to GM are done when the next instruction is issued; what holds them back is the
  // data cache, which has a check of its own.
  uint32_t seen[kPipes + 1];
  const auto look = [&] {
    std::copy(ticket_.seen, ticket_.seen + kPipes + 1, seen);
    seen[PipeIndex(PIPE_S)] = core_->issued[PipeIndex(PIPE_S)];
  };
  look();
  Ticket ticket = ticket_;
  ticket.seen = seen;
  Conflict conflict;
  for (uint64_t row = 0; row < rows.rows; ++row) {
    const uint64_t begin = first + row * rows.pitch;
    bool clean = kind == kRead
                     ? buffer.shadow.ReadRange(ticket, begin, rows.row_bytes, &conflict)
                     : buffer.shadow.WriteRange(ticket, begin, rows.row_bytes, kind, &conflict);
    if (__builtin_expect(!clean && ticket_.polls, 0) && LearnFromPoll(buffer, conflict)) {
      ticket.remote = ticket_.remote;
      clean = buffer.shadow.ReadRange(ticket, begin, rows.row_bytes, &conflict);
    }
    while (__builtin_expect(!clean, 0)) {
      Excuse(&buffer.shadow, operand, kind, conflict, start);
      look();
      const uint64_t at = std::max(begin, conflict.granule * kBlockBytes);
      const uint64_t bytes = begin + rows.row_bytes - at;
      clean = kind == kRead ? buffer.shadow.ReadRange(ticket, at, bytes, &conflict)
                            : buffer.shadow.WriteRange(ticket, at, bytes, kind, &conflict);
    }
    if (kind != kRead && buffer.line_versions != nullptr && !ticket_.dirty) {
      CheckLineOwned(buffer, begin, true);
      CheckLineOwned(buffer, begin + rows.row_bytes - 1, true);
    }
    // A scalar write reaches memory, and other lines, when the cache is cleaned.
    if (kind != kRead && buffer.line_versions != nullptr && !ticket_.dirty) {
      BumpLines(buffer, begin, begin + rows.row_bytes);
    }
  }
  if (kind == kAtomic && buffer.shadow.TakeUnorderedAtomic() &&
      core_->registers.atomic == kAtomicAdd && IsFloat(o.dtype)) {
    Warn("float atomics in no fixed order",
         Format("the sum in %s depends on the order of the stores", buffer.name.c_str()));
  }
}

// A scalar write that its core has cleaned out of its cache was found by a poll: what that core
// knew when it cleaned the line is known here from now on.
bool Instr::LearnFromPoll(GlobalBuffer& buffer, const Conflict& conflict) {
  const Entry& e = conflict.other;
  const bool cleaned = conflict.kind == Conflict::kHazard && e.kind == kWrite && !e.dirty &&
                       e.pipe == PipeIndex(PIPE_S) && e.core != core_->index;
  if (!cleaned) return false;
  const auto released = buffer.released.find(conflict.granule * kBlockBytes / kLineBytes);
  if (released == buffer.released.end()) return false;
  twin::Learn(*core_, *released->second);
  ticket_.remote = core_->remote.get();
  return true;
}

void Instr::CheckLineOwned(GlobalBuffer& buffer, uint64_t offset, bool scalar) const {
  const uint64_t begin = offset / kLineBytes * kLineBytes;
  const uint64_t end = std::min(begin + kLineBytes, buffer.bytes);
  Conflict conflict;
  for (uint64_t granule = begin / kBlockBytes; granule * kBlockBytes < end; ++granule) {
    if (!buffer.shadow.OtherWrite(ticket_, granule, scalar, &conflict)) continue;
    const Site& site = core_->launch->sites.at(conflict.other.site);
    Fail(Format(
        "the 64-byte line at byte %llu of %s is written by %s as well, by %s at %s:%d, in no "
        "order: a data cache writes back whole lines; keep scalar writes in lines of their own",
        static_cast<unsigned long long>(begin), buffer.name.c_str(),
        CoreName(*core_->launch->cores[conflict.other.core]).c_str(), site.name, site.file,
        site.line));
  }
}

void Instr::WriteAtomic(int operand, const Rows& rows) {
  if (rows.rows == 0 || rows.row_bytes == 0) return;
  AccessGlobal(operand, kAtomic, rows);
}

}  // namespace twin
