// Scalar accesses of tensors, and the views that tensors are made from.
#include <algorithm>
#include <cstring>

#include "twin/device/data_copy.h"
#include "twin/device/launch_state.h"
#include "twin/device/tensor.h"

namespace twin {
namespace {

constexpr const char* kGet = "GetValue";
constexpr const char* kSet = "SetValue";

void KeepVersions(GlobalBuffer* buffer) {
  if (buffer->line_versions != nullptr) return;
  buffer->line_versions.reset(new uint32_t[buffer->bytes / kLineBytes + 2]());
}

// The lines of GM that one element touches, in the data cache of the core.
void FillLine(Core& core, GlobalBuffer& buffer, uint64_t offset, bool write, const Instr& instr,
              const Where& where) {
  if (!buffer.tracked) return;
  KeepVersions(&buffer);
  const uint64_t line = offset / kLineBytes;
  auto& cached = core.launch->cached[core.index];
  const uint64_t key = reinterpret_cast<uint64_t>(buffer.address) + line * kLineBytes;
  const auto [found, added] = cached.try_emplace(
      key, CacheLineState{buffer.line_versions[line], false, &buffer, line, where});
  if (write) {
    found->second.dirty = true;
    found->second.where = where;
  } else if (!added && found->second.version != buffer.line_versions[line]) {
    instr.Fail(
        Format("stale scalar read: the 64-byte line at byte %llu of %s was written since this "
               "core's data cache took it in: DataCacheCleanAndInvalid before the read",
               static_cast<unsigned long long>(line * kLineBytes), buffer.name.c_str()));
  }
}

// Writes the line back, from byte `from` of it on.
void CleanLine(const Instr& instr, CacheLineState& line, uint64_t from) {
  if (!line.dirty) return;
  GlobalBuffer& buffer = *line.buffer;
  const uint64_t begin = line.line * kLineBytes;
  const uint64_t end = std::min<uint64_t>(begin + kLineBytes, buffer.bytes);
  instr.CheckLineOwned(buffer, begin, false);
  if (line.version != buffer.line_versions[line.line]) {
    instr.Fail(
        Format("writes the 64-byte line at byte %llu of %s back over what was written there since "
               "this core's data cache took it in",
               static_cast<unsigned long long>(begin), buffer.name.c_str()));
  }
  buffer.shadow.MarkClean(instr.core().index, begin + from, end - begin - from);
  buffer.released[line.line] = Know(instr.core(), PipeIndex(PIPE_S));
  ++buffer.line_versions[line.line];
}

void MarkPolls(Core& core, const CacheLineState& line) {
  const uint64_t begin = line.line * kLineBytes;
  const uint64_t end = std::min<uint64_t>(begin + kLineBytes, line.buffer->bytes);
  line.buffer->shadow.MarkPolls(core.index, begin, end - begin);
}

bool HeldElsewhere(const Core& core, Granule& granule) {
  const Entry* const entries = granule.entries();
  return std::any_of(entries, entries + granule.count,
                     [&](const Entry& e) { return e.dirty && e.core != core.index; });
}

// Whether the core looks past its cache for what another may have written; if so others run first.
bool IsPoll(Core& core, const GlobalView& view, uint64_t begin, const Where& where) {
  if (view.buffer == nullptr) view.buffer = FindGlobalBuffer(view.address + begin);
  GlobalBuffer* buffer = view.buffer;
  if (buffer == nullptr || !buffer->tracked) return false;
  const int64_t offset = view.address + begin - buffer->address;
  if (offset < 0 || static_cast<uint64_t>(offset) >= buffer->bytes) return false;
  const uint64_t line = static_cast<uint64_t>(offset) / kLineBytes;
  const uint64_t key = reinterpret_cast<uint64_t>(buffer->address) + line * kLineBytes;
  const Polling& polling = core.launch->polling[core.index];
  if (core.launch->cached[core.index].count(key) != 0) return false;
  if (!polling.entire && polling.lines.count(key) == 0) return false;
  // A flag that another core has not cleaned out of its cache is not there to be found yet.
  do {
    const bool versions = buffer->line_versions != nullptr;
    SwitchForPoll(core, kGet, key, versions ? buffer->line_versions[line] : 0, where);
  } while (HeldElsewhere(core, buffer->shadow.at(static_cast<uint64_t>(offset) / kBlockBytes)));
  return true;
}

}  // namespace

void* ScalarRead(const LocalView& view, uint64_t index, const Operand& operand,
                 const Where& where) {
  Instr instr(kGet, PIPE_S, where, {operand});
  const uint64_t begin = index * operand.element;
  instr.Read(0, Bytes{begin, operand.element}, operand.element);
  return UseMemory(instr.core(), view.memory()).data + view.address + begin;
}

void* ScalarWrite(const LocalView& view, uint64_t index, const Operand& operand,
                  const Where& where) {
  Instr instr(kSet, PIPE_S, where, {operand});
  const uint64_t begin = index * operand.element;
  instr.Write(0, Bytes{begin, operand.element}, operand.element);
  return UseMemory(instr.core(), view.memory()).data + view.address + begin;
}

void* ScalarRead(const GlobalView& view, uint64_t index, const Operand& operand,
                 const Where& where) {
  Core& core = ThisCore(kGet, where);
  const uint64_t begin = index * operand.element;
  const bool polls = !core.launch->probing && IsPoll(core, view, begin, where);
  if (!polls) MaySwitch(core);
  Instr instr(kGet, PIPE_S, where, {operand});
  if (polls) instr.Polls();
  instr.Read(0, Bytes{begin, operand.element});
  const uint64_t offset = static_cast<uint64_t>(view.address - view.buffer->address) + begin;
  FillLine(instr.core(), *view.buffer, offset, false, instr, where);
  return view.address + begin;
}

void* ScalarWrite(const GlobalView& view, uint64_t index, const Operand& operand,
                  const Where& where) {
  MaySwitch(ThisCore(kSet, where));
  Instr instr(kSet, PIPE_S, where, {operand});
  instr.HeldInCache();
  const uint64_t begin = index * operand.element;
  instr.Write(0, Bytes{begin, operand.element});
  const uint64_t offset = static_cast<uint64_t>(view.address - view.buffer->address) + begin;
  FillLine(instr.core(), *view.buffer, offset, true, instr, where);
  return view.address + begin;
}

void* ReadPastCache(const Operand& operand, const Where& where) {
  const char* name = "ReadGmByPassDCache";
  const GlobalView& view = *operand.global;
  Core& core = ThisCore(name, where);
  if (!core.launch->probing && view.buffer != nullptr && view.buffer->tracked) {
    const GlobalBuffer& buffer = *view.buffer;
    const uint64_t line = static_cast<uint64_t>(view.address - buffer.address) / kLineBytes;
    SwitchForPoll(core, name, reinterpret_cast<uint64_t>(view.address),
                  buffer.line_versions == nullptr ? 0 : buffer.line_versions[line], where);
  }
  Instr instr(name, PIPE_S, where, {operand});
  instr.Polls();
  instr.Read(0, Bytes{0, operand.element});
  return view.address;
}

void* WritePastCache(const Operand& operand, const Where& where) {
  const char* name = "WriteGmByPassDCache";
  Core& core = ThisCore(name, where);
  MaySwitch(core);
  Instr instr(name, PIPE_S, where, {operand});
  const GlobalView& view = *operand.global;
  if (view.buffer != nullptr && view.buffer->tracked) KeepVersions(view.buffer);
  instr.Write(0, Bytes{0, operand.element});
  GlobalBuffer& buffer = *view.buffer;
  const uint64_t line = static_cast<uint64_t>(view.address - buffer.address) / kLineBytes;
  buffer.released[line] = Know(core, PipeIndex(PIPE_S));
  return view.address;
}

void CleanCache(const Operand& tensor, bool entire, const Where& where) {
  Instr instr("DataCacheCleanAndInvalid", PIPE_S, where, {tensor});
  Core& core = instr.core();
  auto& cached = core.launch->cached[core.index];
  Polling& polling = core.launch->polling[core.index];
  if (entire) {
    for (auto& [key, line] : cached) {
      CleanLine(instr, line, 0);
      MarkPolls(core, line);
    }
    cached.clear();
    polling.entire = true;
    return;
  }
  const GlobalView& view = *tensor.global;
  instr.Check(view.buffer != nullptr, "the tensor points into none of the kernel's buffers");
  const uint64_t offset = static_cast<uint64_t>(view.address - view.buffer->address);
  const uint64_t key =
      reinterpret_cast<uint64_t>(view.buffer->address) + offset / kLineBytes * kLineBytes;
  polling.lines.insert(key);
  const auto found = cached.find(key);
  if (found == cached.end()) return;
  // From an address inside a line, only what follows it in the line.
  CleanLine(instr, found->second, offset % kLineBytes);
  MarkPolls(core, found->second);
  cached.erase(found);
}

void FlushCache(Core& core) {
  auto& cached = core.launch->cached[core.index];
  for (auto& [key, line] : cached) {
    if (!line.dirty) continue;
    Warn("scalar writes left in the data cache", line.where,
         Format("SetValue to %s without DataCacheCleanAndInvalid: the value reaches GM when the "
                "kernel has ended, if at all",
                line.buffer->name.c_str()));
    CleanLine(Instr("SetValue", PIPE_S, line.where, {}), line, 0);
  }
  cached.clear();
}

void* LocalAddress(const LocalView& view, uint64_t offset) {
  Core& core = ThisCore("GetPhyAddr", {});
  return UseMemory(core, view.memory()).data + view.address + offset;
}

LocalView StaticView(TPosition position, uint32_t address, uint32_t bytes, const Where& where) {
  const Hardware memory = AscendC::GetPhyType(position);
  if (position >= TPosition::MAX || memory == Hardware::GM) {
    Fail("LocalTensor", where, Format("position %s has no on-chip memory", PositionName(position)));
  }
  if (uint64_t{address} + bytes > MemoryBytes(memory)) {
    Fail("LocalTensor", where,
         Format("bytes [%u, %llu) lie beyond the end of %s, which has %u", address,
                static_cast<unsigned long long>(uint64_t{address} + bytes), MemoryName(memory),
                MemoryBytes(memory)));
  }
  if (address % kBlockBytes != 0) {
    Fail("LocalTensor", where, Format("address %u is not a multiple of 32", address));
  }
  LocalView view;
  view.address = address;
  view.bytes = bytes;
  view.position = position;
  return view;
}

GlobalBuffer* FindGlobalBuffer(const void* address) {
  if (current_launch == nullptr) return nullptr;
  const auto* byte = static_cast<const uint8_t*>(address);
  GlobalBuffer* ends_here = nullptr;
  for (const auto& buffer : current_launch->buffers) {
    if (byte >= buffer->address && byte < buffer->address + buffer->bytes) return buffer.get();
    if (byte != nullptr && byte == buffer->address + buffer->bytes) ends_here = buffer.get();
  }
  return ends_here;
}

void SetUserTag(const LocalView& view, int32_t tag) {
  if (view.buffer != nullptr) view.buffer->user_tag = tag;
}
int32_t GetUserTag(const LocalView& view) {
  return view.buffer != nullptr ? view.buffer->user_tag : -1;
}

}  // namespace twin
