// The threads of a kernel call: how many, what they share, and how one waits for another.
// Translation units of every instruction set include this: plain data, and calls of what threads.cc
// and workers.cc define.
#pragma once

#include <sched.h>

#include <cstdint>

namespace nsa::cpu {

// The number of processors that an affinity mask names.
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

// Shared state of a team that works on one region.
struct Region {
  int32_t count = 1;                // members
  alignas(64) int64_t next = 0;     // of dynamic_for()
  alignas(64) int32_t arrived = 0;  // at the next barrier
  int32_t generation = 0;           // barriers passed
};

// Returns when all members have called it. What they wrote before is seen by all after it, and
// dynamic_for() begins anew.
void barrier(Region& region);

// A member of a team at work.
struct Member {
  Region& region;
  int32_t number;  // from 0, the calling thread's, to region.count

  [[gnu::always_inline]] void barrier() const { cpu::barrier(region); }

  // each(i) for this member's share of 0 <= i < n, which are neighbours.
  template <class Each>
  [[gnu::always_inline]] void static_for(int64_t n, const Each& each) const {
    const int64_t count = region.count, whole = n / count, more = n % count;
    const int64_t first = number * whole + (number < more ? number : more);
    const int64_t past = first + whole + (number < more ? 1 : 0);
    for (int64_t i = first; i < past; ++i) each(i);
  }

  // each(i) for all 0 <= i < n in this order, every i in the member that is free first. A
  // barrier() must separate two of these.
  template <class Each>
  [[gnu::always_inline]] void dynamic_for(int64_t n, const Each& each) const {
    for (;;) {
      const int64_t i = __atomic_fetch_add(&region.next, int64_t{1}, __ATOMIC_RELAXED);
      if (i >= n) return;
      each(i);
    }
  }
};

// body(context, member) by at most `threads` members at once, by as many as start_team() started
// for the calling thread. It must not throw. Returns when all are done.
void run_region(int threads, void (*body)(const void*, const Member&), const void* context);

namespace {

// Tells the processor that a loop waits.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The next turn of such a loop, which begins with spins = 0: who waits long leaves the processor to
// others.
inline void wait_turn(int& spins) {
  constexpr int kSpins = 64;
  if (spins == kSpins) {
    sched_yield();
    return;
  }
  ++spins;
  pause();
}

template <class Body>
inline void parallel_region(int threads, const Body& body) {
  run_region(
      threads,
      [](const void* context, const Member& member) {
        (*static_cast<const Body*>(context))(member);
      },
      &body);
}

}  // namespace
}  // namespace nsa::cpu
