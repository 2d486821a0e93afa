#include "twin/device/launch.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>

#include "twin/device/fault.h"
#include "twin/device/launch_state.h"

namespace twin {
namespace {

struct Layout {
  uint32_t aic_per_block;
  uint32_t aiv_per_block;
};

Layout LayoutOf(KernelType type) {
  switch (type) {
    case KernelType::kAicOnly:
    case KernelType::kMixAic10:
      return {1, 0};
    case KernelType::kMixAic11:
      return {1, 1};
    case KernelType::kMixAic12:
      return {1, 2};
    default:
      return {0, 1};
  }
}

void AddCore(LaunchState& launch, bool cube, uint32_t block, uint32_t sub_block) {
  auto core = std::make_unique<Core>();
  core->launch = &launch;
  core->index = static_cast<uint16_t>(launch.cores.size());
  core->cube = cube;
  core->block = block;
  core->sub_block = sub_block;
  launch.cores.push_back(std::move(core));
}

// The word of FillUnwritten at an address: not a number in half, bfloat16_t and float, with a
// payload that no computation gives.
uint64_t UnwrittenWord(const void* address) {
  uint64_t z = reinterpret_cast<uint64_t>(address) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z ^= z >> 27;
  return (z & 0x807f807f807f807full) | 0x7f817f817f817f81ull;
}

void MarkFilled(GlobalBuffer* buffer, bool filled_unwritten) {
  if (!filled_unwritten) {
    buffer->shadow.MarkWritten(0, buffer->bytes);
    return;
  }
  for (uint64_t at = 0; at < buffer->bytes; at += 8) {
    uint64_t word;
    const uint64_t expected = UnwrittenWord(buffer->address + at);
    const uint64_t bytes = std::min<uint64_t>(8, buffer->bytes - at);
    std::memcpy(&word, buffer->address + at, 8);
    if (word != expected) buffer->shadow.MarkWritten(at, bytes);
  }
}

// The buffer that shares memory with the argument: an operator may work in place.
GlobalBuffer* Overlapping(LaunchState& launch, const GlobalArgument& argument) {
  const auto* begin = static_cast<const uint8_t*>(argument.address);
  for (const auto& buffer : launch.buffers) {
    if (begin < buffer->address + buffer->bytes && buffer->address < begin + argument.bytes) {
      return buffer.get();
    }
  }
  return nullptr;
}

void AddBuffers(LaunchState& launch) {
  for (const GlobalArgument& argument : launch.options.buffers) {
    auto* begin = static_cast<uint8_t*>(argument.address);
    if (GlobalBuffer* shared = Overlapping(launch, argument)) {
      uint8_t* end = std::max(begin + argument.bytes, shared->address + shared->bytes);
      if (shared->role != argument.role) shared->role = Role::kInOut;
      shared->name += " and " + argument.name;
      shared->address = std::min(begin, shared->address);
      shared->bytes = static_cast<uint64_t>(end - shared->address);
      launch.buffer_of_argument.push_back(nullptr);
      continue;
    }
    auto buffer = std::make_unique<GlobalBuffer>();
    buffer->name = argument.name;
    buffer->address = begin;
    buffer->bytes = argument.bytes;
    buffer->role = argument.role;
    buffer->filled_unwritten = argument.filled_unwritten;
    buffer->expect_written = argument.expect_written;
    launch.buffer_of_argument.push_back(buffer.get());
    launch.buffers.push_back(std::move(buffer));
  }
  for (const auto& buffer : launch.buffers) {
    buffer->tracked = buffer->role != Role::kInput && buffer->role != Role::kTiling;
    if (!buffer->tracked || buffer->bytes == 0) continue;
    buffer->shadow.Resize(buffer->bytes);
    if (buffer->role == Role::kInOut) MarkFilled(buffer.get(), buffer->filled_unwritten);
    buffer->empty_at_start = buffer->shadow.Unwritten(0, buffer->bytes) == buffer->bytes;
    buffer->expect_written &= buffer->empty_at_start;
  }
}

// Runs the kernel on one core's fiber; nothing is thrown out of it.
void RunCore(LaunchState& launch, Core& core, const std::function<void()>& entry) {
  try {
    entry();
    if (!launch.probing) CheckEnd(core);
  } catch (const Cancelled&) {
  } catch (const std::exception& error) {
    if (launch.error.empty()) launch.error = error.what();
  } catch (...) {
    if (launch.error.empty()) launch.error = PlaceName(&core, {}) + ": the kernel threw";
  }
}

void Resume(LaunchState& launch, uint32_t index, const std::function<void()>& entry) {
  Core& core = *launch.cores[index];
  if (core.fiber == nullptr) {
    core.fiber =
        std::make_unique<Fiber>([&launch, &core, &entry] { RunCore(launch, core, entry); });
  }
  current_core = &core;
  core.fiber->Resume();
  current_core = nullptr;
  ReportFault(launch, core);
  if (core.fiber->ended()) {
    core.fiber.reset();
    ReleaseMemories(core);
    launch.schedule[index].status = CoreStatus::kEnded;
  }
}

// The type that the kernel declares before it does anything else.
KernelType Probe(LaunchState& launch, const std::function<void()>& entry) {
  launch.probing = true;
  launch.type = KernelType::kUnset;
  AddCore(launch, false, 0, 0);
  launch.schedule.resize(1);
  Resume(launch, 0, entry);
  launch.cores.clear();
  launch.schedule.clear();
  launch.probing = false;
  if (launch.type == KernelType::kUnset) launch.type = TypeOfFile(launch);
  return launch.type == KernelType::kUnset ? launch.options.default_type : launch.type;
}

std::string DeadlockText(const LaunchState& launch) {
  std::string text =
      "kernel " + launch.options.kernel + ": deadlock: every core that has not ended waits";
  int shown = 0, waiting = 0;
  for (size_t i = 0; i < launch.cores.size(); ++i) {
    const CoreSchedule& s = launch.schedule[i];
    if (s.status != CoreStatus::kWaiting) continue;
    if (++waiting > 6) continue;
    ++shown;
    text += Format("; %s waits for %s at %s:%d", CoreName(*launch.cores[i]).c_str(),
                   s.waits_for.c_str(), s.where.file, s.where.line);
  }
  if (waiting > shown) text += Format("; and %d more", waiting - shown);
  return text;
}

// Blocks beyond the number of cores of the chip start when earlier ones have ended.
bool MayStart(const Core& core, uint32_t resident_blocks) {
  return core.fiber != nullptr || core.block < resident_blocks;
}

void RunAll(LaunchState& launch, const std::function<void()>& entry, uint32_t chip_blocks) {
  uint32_t ended_blocks = 0;
  std::vector<uint32_t> left_in_block(launch.options.block_dim, 0);
  for (const auto& core : launch.cores) ++left_in_block[core->block];
  std::vector<uint32_t> ready;
  while (launch.error.empty()) {
    ready.clear();
    bool open = false;
    for (uint32_t i = 0; i < launch.cores.size(); ++i) {
      if (launch.schedule[i].status == CoreStatus::kEnded) continue;
      open = true;
      if (launch.schedule[i].status == CoreStatus::kReady &&
          MayStart(*launch.cores[i], chip_blocks + ended_blocks)) {
        ready.push_back(i);
      }
    }
    if (!open) return;
    if (ready.empty()) {
      launch.error = DeadlockText(launch);
      return;
    }
    // One round in a random order.
    for (size_t i = ready.size(); i > 1; --i) std::swap(ready[i - 1], ready[launch.Random() % i]);
    for (uint32_t index : ready) {
      if (launch.schedule[index].status != CoreStatus::kReady) continue;
      Resume(launch, index, entry);
      if (!launch.error.empty()) return;
      if (launch.schedule[index].status == CoreStatus::kEnded &&
          --left_in_block[launch.cores[index]->block] == 0) {
        ++ended_blocks;
      }
    }
  }
}

// Unwinds the stacks of all cores that are still inside the kernel.
void CancelAll(LaunchState& launch, const std::function<void()>& entry) {
  launch.cancelled = true;
  for (uint32_t i = 0; i < launch.cores.size(); ++i) {
    if (launch.cores[i]->fiber != nullptr) Resume(launch, i, entry);
    ReleaseMemories(*launch.cores[i]);
  }
}

void FillReport(LaunchState& launch, LaunchReport* report) {
  report->ok = launch.error.empty();
  report->error = launch.error;
  report->type = launch.type;
  report->cores = static_cast<uint32_t>(launch.cores.size());
  for (auto& [key, warning] : launch.warnings) report->warnings.push_back(warning);
  for (const auto& core : launch.cores) {
    for (int p = 0; p < kPipes; ++p) {
      const PipeCounters& c = core->counters[p];
      PipeTotals& t = report->pipes[p];
      t.instructions += c.instructions;
      t.repeats += c.repeats;
      t.read_bytes += c.read_bytes;
      t.written_bytes += c.written_bytes;
      t.gm_read_bytes += c.gm_read_bytes;
      t.gm_written_bytes += c.gm_written_bytes;
      t.most_instructions = std::max(t.most_instructions, c.instructions);
      t.most_gm_bytes = std::max(t.most_gm_bytes, c.gm_read_bytes + c.gm_written_bytes);
    }
  }
  for (const GlobalBuffer* buffer : launch.buffer_of_argument) {
    const bool output = buffer != nullptr && buffer->role == Role::kOutput && buffer->bytes > 0;
    report->unwritten.push_back(output ? buffer->shadow.Unwritten(0, buffer->bytes) : 0);
  }
}

void WarnOfUnwritten(const LaunchState& launch) {
  for (const auto& buffer : launch.buffers) {
    if (!buffer->expect_written || buffer->read || buffer->bytes == 0) continue;
    const uint64_t bytes = buffer->shadow.Unwritten(0, buffer->bytes);
    if (bytes == 0) continue;
    const char* name = buffer->name.c_str();
    Warn("output not written", {},
         Format("%llu of the %llu bytes of %s hold no value: neither the host nor the kernel wrote "
                "them",
                static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(buffer->bytes), name));
  }
}

// A kernel whose work stands behind a macro or a tiling key that nobody has set ends without a
// word.
void WarnOfNothing(const LaunchState& launch) {
  uint64_t instructions = 0;
  for (const auto& core : launch.cores) {
    for (const PipeCounters& pipe : core->counters) instructions += pipe.instructions;
  }
  const bool writes = std::any_of(launch.buffers.begin(), launch.buffers.end(), [](const auto& b) {
    return b->bytes > 0 && (b->role == Role::kOutput || b->role == Role::kInOut);
  });
  if (instructions > 0 || !writes || !launch.warnings.empty()) return;
  Warn("no instruction", {},
       Format("no core has issued an instruction: there was nothing to do, or the branch of tiling "
              "key %llu, or of a macro that is not defined, is empty",
              static_cast<unsigned long long>(launch.options.tiling_key)));
}

void CheckOptions(const LaunchOptions& options) {
  const auto refuse = [&](const std::string& message) {
    throw Error("kernel " + options.kernel + ": " + message);
  };
  if (options.block_dim == 0 || options.block_dim > 65535) {
    refuse(Format("blockDim is %u, expected 1 to 65535", options.block_dim));
  }
  for (const GlobalArgument& b : options.buffers) {
    if (b.address == nullptr && b.bytes > 0) refuse("buffer " + b.name + " is a null pointer");
  }
}

// An error that leaves a destructor ends the process, unless the core is left first.
std::terminate_handler default_terminate;
[[noreturn]] void Terminate() {
  const Core* core = current_core;
  const bool ours = core != nullptr && (core->launch->cancelled || core->launch->probing ||
                                        !core->launch->error.empty());
  if (ours) core->fiber->Abandon();
  if (default_terminate != nullptr) default_terminate();
  std::abort();
}

struct TerminateHandler {
  TerminateHandler() { default_terminate = std::set_terminate(Terminate); }
  ~TerminateHandler() { std::set_terminate(default_terminate); }
};

void Run(LaunchState& launch, const std::function<void()>& entry) {
  const TerminateHandler terminate_handler;
  const FaultGuard fault_guard;
  const LaunchOptions& options = launch.options;
  launch.random = options.seed;
  AddBuffers(launch);
  launch.type = options.type == KernelType::kUnset ? Probe(launch, entry) : options.type;
  if (!launch.error.empty()) return;
  const Layout layout = LayoutOf(launch.type);
  launch.aiv_per_block = std::max(1u, layout.aiv_per_block);
  for (uint32_t block = 0; block < options.block_dim; ++block) {
    for (uint32_t i = 0; i < layout.aic_per_block; ++i) AddCore(launch, true, block, 0);
    for (uint32_t i = 0; i < layout.aiv_per_block; ++i) AddCore(launch, false, block, i);
  }
  const size_t cores = launch.cores.size();
  if (options.clock.on) StartRecord(launch, layout.aic_per_block, layout.aiv_per_block);
  launch.schedule.resize(cores);
  launch.cross_flags.assign(cores, std::vector<CrossFlag>(kCrossFlags));
  launch.cached.resize(cores);
  launch.polling.resize(cores);
  uint32_t chip_blocks = ~0u;
  if (layout.aic_per_block > 0) chip_blocks = options.aic_cores / layout.aic_per_block;
  if (layout.aiv_per_block > 0) {
    chip_blocks = std::min(chip_blocks, options.aiv_cores / layout.aiv_per_block);
  }
  RunAll(launch, entry, std::max(1u, chip_blocks));
  if (!launch.error.empty()) {
    CancelAll(launch, entry);
    return;
  }
  WarnOfNothing(launch);
  WarnOfUnwritten(launch);
  try {
    CheckCrossFlagsEnd(launch);
    CheckCarriedEnd(launch);
  } catch (const Error& error) {
    launch.error = error.what();
  }
}

}  // namespace

uint32_t Sites::Id(const char* name, const Where& where) {
  const uintptr_t mixed = reinterpret_cast<uintptr_t>(name) * 31 +
                          reinterpret_cast<uintptr_t>(where.file) +
                          static_cast<uintptr_t>(where.line) * 37;
  Slot& slot = recent_[(mixed ^ (mixed >> 8)) & 255];
  if (slot.name == name && slot.file == where.file && slot.line == where.line) return slot.id;
  const std::string key = Format("%p %p %d", static_cast<const void*>(name),
                                 static_cast<const void*>(where.file), where.line);
  const auto [found, added] = ids_.emplace(key, static_cast<uint32_t>(sites_.size()));
  if (added) sites_.push_back({name, where.file == nullptr ? "?" : where.file, where.line});
  slot = {name, where.file, where.line, found->second};
  return found->second;
}

void FillUnwritten(void* address, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 8) {
    const uint64_t word = UnwrittenWord(static_cast<uint8_t*>(address) + at);
    std::memcpy(static_cast<uint8_t*>(address) + at, &word, 8);
  }
}

void MaySwitch(Core& core) {
  LaunchState& launch = *core.launch;
  if (launch.probing || launch.cores.size() == 1 || (launch.Random() & 7) != 0) return;
  core.fiber->GiveWay();
  if (launch.cancelled) LeaveKernel();
}

void SwitchForPoll(Core& core, const char* what, uint64_t line, uint32_t version,
                   const Where& where) {
  constexpr uint64_t kAlone = 100, kMost = 1'000'000;
  LaunchState& launch = *core.launch;
  Polling& polling = launch.polling[core.index];
  if (polling.line != line || polling.version != version) {
    polling.line = line;
    polling.version = version;
    polling.times = 0;
  }
  const bool alone = std::none_of(launch.cores.begin(), launch.cores.end(), [&](const auto& other) {
    return other.get() != &core && launch.schedule[other->index].status == CoreStatus::kReady;
  });
  if (++polling.times > (alone ? kAlone : kMost)) {
    Fail(what, where, "deadlock: the value is read again and again, and no core changes it");
  }
  core.fiber->GiveWay();
  if (launch.cancelled) LeaveKernel();
}

void WaitUntilWoken(Core& core, const std::string& what, const Where& where) {
  CoreSchedule& s = core.launch->schedule[core.index];
  s.status = CoreStatus::kWaiting;
  s.waits_for = what;
  s.where = where;
  core.fiber->GiveWay();
  if (core.launch->cancelled) LeaveKernel();
}

void Wake(Core& core) {
  CoreSchedule& s = core.launch->schedule[core.index];
  if (s.status == CoreStatus::kWaiting) s.status = CoreStatus::kReady;
}

void EndProbe() { LeaveKernel(); }

LaunchReport Launch(const LaunchOptions& options, const std::function<void()>& entry) {
  static auto* one_at_a_time = new std::mutex;
  std::lock_guard<std::mutex> lock(*one_at_a_time);
  LaunchReport report;
  LaunchState launch;
  launch.options = options;
  current_launch = &launch;
  try {
    CheckOptions(options);
    if (!options.clock.on) launch.options.clock = clock::OptionsOfEnvironment();
    Run(launch, entry);
    if (launch.record != nullptr && launch.error.empty()) report.clock = EndRecord(launch);
  } catch (const std::exception& error) {
    launch.error = error.what();
  }
  current_launch = nullptr;
  FillReport(launch, &report);
  return report;
}

}  // namespace twin
