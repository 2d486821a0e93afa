// Launches a kernel on the twin without CANN's host side and reports what happened.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernel_operator.h"

namespace runner {

// Fields as runner.py has them.
struct Result {
  char error[4096];
  int64_t cores;            // used
  int64_t warnings;         // of all kinds
  int64_t unwritten;        // bytes of outputs
  int64_t instructions[7];  // by pipe: S, V, M, MTE1, MTE2, MTE3, FIX
  int64_t repeats[7];
  int64_t gm_read, gm_written;  // bytes
  int64_t most_gm;              // of one core
};

// Bytes of a caller; null: a tensor that is not given.
struct Tensor {
  const void* data;
  int64_t bytes;
};

inline std::vector<int64_t> list_of(const Tensor& tensor) {
  const auto* data = static_cast<const int64_t*>(tensor.data);
  return std::vector<int64_t>(data, data + tensor.bytes / 8);
}

constexpr int kGarbage = 0xa5;

// Tiling data or a workspace before anybody has written to it.
template <class Tiling>
Tiling unset() {
  Tiling tiling;
  std::memset(static_cast<void*>(&tiling), kGarbage, sizeof(tiling));
  return tiling;
}

inline GM_ADDR address(const void* pointer) {
  return reinterpret_cast<GM_ADDR>(const_cast<void*>(pointer));
}

inline GM_ADDR address(const Tensor& tensor) { return address(tensor.data); }

class Launcher {
 public:
  Launcher(const char* kernel, int64_t seed, Result* result) : result_(result) {
    std::memset(result, 0, sizeof(*result));
    options_.kernel = kernel;
    options_.seed = static_cast<uint64_t>(seed);
    options_.print_warnings = false;
  }

  void add(const char* name, const void* address, int64_t bytes, twin::Role role) {
    options_.buffers.push_back(
        {name, const_cast<void*>(address), static_cast<uint64_t>(bytes), role});
  }

  // A tensor that is not given is no buffer.
  void add(const char* name, const Tensor& tensor, twin::Role role) {
    if (tensor.data != nullptr) add(name, tensor.data, tensor.bytes, role);
  }

  GM_ADDR add_workspace(int64_t bytes) {
    workspace_.assign(static_cast<size_t>(bytes), static_cast<uint8_t>(kGarbage));
    add("workspace", workspace_.data(), bytes, twin::Role::kWorkspace);
    return workspace_.data();
  }

  template <class Tiling, class Entry>
  void run(int32_t cores, const Tiling& tiling, Entry entry) {
    add("tiling", &tiling, sizeof(tiling), twin::Role::kTiling);
    options_.block_dim = static_cast<uint32_t>(cores);
    const twin::LaunchReport report = twin::Launch(options_, entry);
    result_->cores = cores;
    std::strncpy(result_->error, report.error.c_str(), sizeof(result_->error) - 1);
    for (const twin::Warning& warning : report.warnings) {
      result_->warnings += static_cast<int64_t>(warning.count);
      // Without an error there is room to say which.
      if (report.error.empty())
        std::strncpy(result_->error + 1, warning.message.c_str(), sizeof(result_->error) - 2);
    }
    for (size_t i = 0; i < report.unwritten.size(); ++i) {
      if (options_.buffers[i].role == twin::Role::kOutput)
        result_->unwritten += static_cast<int64_t>(report.unwritten[i]);
    }
    for (int pipe = 0; pipe < 7; ++pipe) {
      const twin::PipeTotals& totals = report.pipes[pipe];
      result_->instructions[pipe] = static_cast<int64_t>(totals.instructions);
      result_->repeats[pipe] = static_cast<int64_t>(totals.repeats);
      result_->gm_read += static_cast<int64_t>(totals.gm_read_bytes);
      result_->gm_written += static_cast<int64_t>(totals.gm_written_bytes);
      result_->most_gm += static_cast<int64_t>(totals.most_gm_bytes);
    }
  }

 private:
  Result* result_;
  twin::LaunchOptions options_;
  std::vector<uint8_t> workspace_;
};

}  // namespace runner
