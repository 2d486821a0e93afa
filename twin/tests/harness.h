// Kernels of a test in one shared library, started from Python by name (harness.py).
#pragma once

#include <cstdio>
#include <map>
#include <string>

#include "kernel_operator.h"

namespace harness {

// A kernel gets the addresses of its buffers and, in `p`, the numbers of the test.
using Kernel = void (*)(GM_ADDR* g, const int64_t* p);

inline std::map<std::string, Kernel>& Kernels() {
  static std::map<std::string, Kernel> kernels;
  return kernels;
}

struct Registration {
  Registration(const char* name, Kernel kernel) { Kernels()[name] = kernel; }
};

template <typename T>
AscendC::GlobalTensor<T> Global(GM_ADDR address) {
  AscendC::GlobalTensor<T> tensor;
  tensor.SetGlobalBuffer(reinterpret_cast<T*>(address));
  return tensor;
}

// All that the event's first pipe has issued is complete before what follows on its second.
template <AscendC::HardEvent event>
void Order(int32_t id = 0, twin::Where where = twin::Here()) {
  AscendC::SetFlag<event>(id, where);
  AscendC::WaitFlag<event>(id, where);
}

inline void AppendJson(std::string* out, const std::string& text) {
  *out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') *out += '\\';
    if (c == '\n') {
      *out += "\\n";
    } else {
      *out += c;
    }
  }
  *out += '"';
}

inline std::string Json(const twin::LaunchReport& report) {
  std::string out = twin::Format(
      "{\"ok\": %s, \"type\": %d, \"cores\": %u, \"error\": ", report.ok ? "true" : "false",
      static_cast<int>(report.type), report.cores);
  AppendJson(&out, report.error);
  out += ", \"warnings\": [";
  for (const twin::Warning& warning : report.warnings) {
    if (out.back() == '}') out += ", ";
    out += "{\"kind\": ";
    AppendJson(&out, warning.kind);
    out += ", \"message\": ";
    AppendJson(&out, warning.message);
    out += twin::Format(", \"count\": %llu}", static_cast<unsigned long long>(warning.count));
  }
  out += "], \"pipes\": [";
  for (const twin::PipeTotals& t : report.pipes) {
    if (out.back() == '}') out += ", ";
    out += twin::Format(
        "{\"instructions\": %llu, \"repeats\": %llu, \"read\": %llu, \"written\": %llu, "
        "\"gm_read\": %llu, \"gm_written\": %llu}",
        static_cast<unsigned long long>(t.instructions), static_cast<unsigned long long>(t.repeats),
        static_cast<unsigned long long>(t.read_bytes),
        static_cast<unsigned long long>(t.written_bytes),
        static_cast<unsigned long long>(t.gm_read_bytes),
        static_cast<unsigned long long>(t.gm_written_bytes));
  }
  out += "], \"unwritten\": [";
  for (size_t i = 0; i < report.unwritten.size(); ++i) {
    out += twin::Format("%s%llu", i > 0 ? ", " : "",
                        static_cast<unsigned long long>(report.unwritten[i]));
  }
  out += "]";
  if (report.clock != nullptr) {
    out += ", \"clock\": " + report.clock->Json() + ", \"table\": ";
    AppendJson(&out, report.clock->Table());
  }
  return out + "}";
}

inline twin::clock::Options& NextClock() {
  static twin::clock::Options options;
  return options;
}

inline bool& NextCarries() {
  static bool carries = false;
  return carries;
}

}  // namespace harness

// KERNEL(name) { body }: `g` are the buffers, `p` the numbers.
#define KERNEL(name)                                               \
  static void name(GM_ADDR* g, const int64_t* p);                  \
  static const harness::Registration register_##name(#name, name); \
  static void name([[maybe_unused]] GM_ADDR* g, [[maybe_unused]] const int64_t* p)

extern "C" __attribute__((used, visibility("default"))) inline const char* twin_run(
    const char* name, int block_dim, uint64_t seed, uint64_t tiling_key, int type, int buffers,
    void** addresses, const uint64_t* bytes, const int* roles, const int64_t* numbers) {
  static std::string text;
  const auto found = harness::Kernels().find(name);
  if (found == harness::Kernels().end()) return "{\"ok\": false, \"error\": \"no such kernel\"}";
  twin::LaunchOptions options;
  options.clock = harness::NextClock();
  harness::NextClock() = {};
  options.carry_uninitialised = harness::NextCarries();
  harness::NextCarries() = false;
  options.kernel = name;
  options.block_dim = static_cast<uint32_t>(block_dim);
  options.seed = seed;
  options.tiling_key = tiling_key;
  options.type = static_cast<twin::KernelType>(type);
  options.print_warnings = false;
  std::vector<GM_ADDR> arguments;
  for (int i = 0; i < buffers; ++i) {
    options.buffers.push_back({"buffer " + std::to_string(i), addresses[i], bytes[i],
                               static_cast<twin::Role>(roles[i]), false});
    arguments.push_back(static_cast<GM_ADDR>(addresses[i]));
  }
  text = harness::Json(twin::Launch(options, [&] { found->second(arguments.data(), numbers); }));
  return text.c_str();
}

// In the next launch bytes without a value travel with what is computed from them.
extern "C" __attribute__((used, visibility("default"))) inline void twin_carry_next() {
  harness::NextCarries() = true;
}

// The next launch is timed on this chip, with one cost replaced where `cost` is not empty, and its
// trace is written where `trace` is not empty. False if there is no such chip or cost.
extern "C" __attribute__((used, visibility("default"))) inline bool twin_time_next(
    const char* chip, const char* cost, double value, const char* trace) {
  const twin::clock::Chip* found = twin::clock::FindChip(chip);
  if (found == nullptr) return false;
  twin::clock::Options& options = harness::NextClock();
  options.on = true;
  options.chip = *found;
  options.trace = trace;
  return cost[0] == '\0' || twin::clock::SetCost(&options.costs, cost, value);
}
