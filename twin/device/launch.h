// Runs a kernel on all its cores.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "twin/clock/report.h"
#include "twin/device/error.h"
#include "twin/device/types.h"

namespace twin {

// A kernel may do these things with a global buffer.
enum class Role {
  kInput,      // read
  kOutput,     // write; reading it before it is written is an error
  kInOut,      // read and write, holds values from the start
  kWorkspace,  // as kOutput, for the kernel's own use
  kTiling,     // read
};

struct GlobalArgument {
  std::string name;
  void* address = nullptr;
  uint64_t bytes = 0;  // the real size: nothing beyond it may be touched
  Role role = Role::kInOut;
  // kInOut: words that still hold what FillUnwritten put there hold no value.
  bool filled_unwritten = false;
  // A warning tells of bytes without a value at the end, where there were none at the start and the
  // kernel has read none.
  bool expect_written = false;
};

// Fills memory with words that no computation gives, a multiple of 8 bytes.
TWIN_API void FillUnwritten(void* address, uint64_t bytes);

enum class KernelType {
  kUnset,  // as KERNEL_TASK_TYPE in the kernel says
  kAivOnly,
  kAicOnly,
  kMixAiv10,
  kMixAic10,
  kMixAic11,
  kMixAic12,
};

struct LaunchOptions {
  std::string kernel;  // name in messages
  uint32_t block_dim = 1;
  uint64_t tiling_key = 0;
  uint64_t seed = 0;  // of the interleaving of the cores
  KernelType type = KernelType::kUnset;
  KernelType default_type = KernelType::kAivOnly;  // where the kernel does not say
  bool pure_cross_core = false;  // cross-core flags in AIV_ONLY and AIC_ONLY kernels too
  uint32_t aic_cores = 24;       // of the chip
  uint32_t aiv_cores = 48;
  std::vector<GlobalArgument> buffers;
  bool print_warnings = true;
  clock::Options clock;  // modelled time; the environment may ask for it too
  // Errors name the switch that would lift them.
  bool names_switches = false;
  // CANN's compiler inserts these in vector cores unless it is told not to: barriers between vector
  // instructions, and flags between the scalar unit and the other pipes.
  bool auto_sync = false;
  // Bytes without a value travel with what is computed from them, and are an error where they
  // decide something (a scalar, an offset, a mask, a comparison) or are left in an output.
  bool carry_uninitialised = false;
  // Reads of bytes without a value warn, and go on with what is there.
  bool warn_uninitialised = false;
  // So do accesses that go past the end of a tensor and stay in its memory.
  bool warn_beyond_tensor = false;
};

struct Warning {
  std::string kind;
  std::string message;  // of the first time
  uint64_t count = 0;
};

// Instructions and bytes per pipe, summed over the cores; [S, V, M, MTE1, MTE2, MTE3, FIX].
struct PipeTotals {
  uint64_t instructions = 0;
  uint64_t repeats = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t gm_read_bytes = 0;
  uint64_t gm_written_bytes = 0;
  uint64_t most_instructions = 0;  // of one core
  uint64_t most_gm_bytes = 0;      // read and written by one core
};

struct LaunchReport {
  bool ok = true;
  std::string error;
  std::vector<Warning> warnings;
  PipeTotals pipes[7];
  KernelType type = KernelType::kUnset;
  uint32_t cores = 0;
  // Bytes of outputs that were never written, by buffer in the order of the options.
  std::vector<uint64_t> unwritten;
  // Modelled time, where it was asked for and the launch has ended well.
  std::shared_ptr<const clock::Report> clock;
};

// Runs `entry` once on every core. An error ends the launch and is in the report.
TWIN_API LaunchReport Launch(const LaunchOptions& options, const std::function<void()>& entry);

// A kernel function with its arguments.
template <typename... P, typename... A>
LaunchReport LaunchKernel(const LaunchOptions& options, void (*kernel)(P...), A... arguments) {
  return Launch(options, [=] { kernel(static_cast<P>(arguments)...); });
}

}  // namespace twin
