// What the kernels ask of the process: the instruction set, the number of threads, scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nsa::cpu {

// Instruction sets of this build that the machine can run, best first: "avx512_amx", "avx512_bf16",
// "avx512", "avx2", "neon", "scalar".
std::vector<std::string> available_isas();

// The one in use: the best, unless MINDSPORE_NSA_ISA or set_isa named another.
std::string isa();

// Throws std::invalid_argument where the name is unknown or the machine lacks the instructions.
void set_isa(const std::string& name);

// As many processors as an affinity mask names.
constexpr int kMaxThreads = 1024;

// min(omp_get_max_threads, processors this process may run on), or the number set by
// set_num_threads; 1 in the thread that a forked child begins with. Less where the last
// start_team() of this thread could not start so many.
int num_threads();
void set_num_threads(int n);  // 0: back to the default

// Before a kernel: starts the threads of num_threads() that do not run yet, or as many as can be.
// The results are the same with fewer.
void start_team();

// While it lives, kernels called by this thread use one thread: work so small that waking others
// would take longer. A number set by set_num_threads is left alone.
class SingleThread {
 public:
  explicit SingleThread(bool active);
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  bool before_;
};

// While it lives, kernels called by this thread use so many threads, whatever else is set; 0: as if
// it were not there.
class ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

// Bytes of scratch held by kernels at once, at most, since the last reset.
int64_t scratch_high_water();
void reset_scratch_high_water();

}  // namespace nsa::cpu
