#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <mutex>
#include <vector>

#include "cpu/runtime.h"

namespace nsa::cpu {
namespace {

std::atomic<int> chosen{0};
thread_local int of_call = 0;  // ThreadCount
thread_local bool single_thread = false;
// This thread lived through a fork. OpenMP would wait for the team that it had before, whose other
// threads are not in the child.
thread_local bool forked = false;
thread_local int team = 1;             // threads of this thread's team, which OpenMP keeps
thread_local int startable = INT_MAX;  // as far as the last start_team() came

int allowed_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return kMaxThreads;  // more processors than the set holds
  return CPU_COUNT(&set);
}

// The team that the callers ask for.
int wanted() {
  if (forked) return 1;
  if (of_call > 0) return of_call;
  const int n = chosen.load();
  if (n > 0) return n;
  if (single_thread) return 1;
  return std::max(1, std::min({omp_get_max_threads(), allowed_processors(), kMaxThreads}));
}

void* pass_gate(void* gate) {
  const std::lock_guard<std::mutex> lock(*static_cast<std::mutex*>(gate));
  return nullptr;
}

// How many of `count` more threads could be started: starts them, and lets them end.
int try_threads(int count) {
  std::vector<pthread_t> threads(count);
  int started = 0;
  {
    std::mutex gate;
    {
      const std::lock_guard<std::mutex> closed(gate);
      while (started < count && pthread_create(&threads[started], nullptr, pass_gate, &gate) == 0) {
        ++started;
      }
    }
    for (int i = 0; i < started; ++i) pthread_join(threads[i], nullptr);
  }
  return started;
}

void in_forked_child() {
  forked = true;
  team = 1;
}

const int registered = pthread_atfork(nullptr, nullptr, in_forked_child);

}  // namespace

int num_threads() { return std::min(wanted(), startable); }

void set_num_threads(int n) { chosen.store(std::clamp(n, 0, kMaxThreads)); }

void start_team() {
  int n = wanted();
  startable = INT_MAX;
  if (n == 1 || n == team || omp_in_parallel()) return;
  if (n > team) {
    // One thread more than needed: what OpenMP itself allocates is less than a thread's stack.
    const int more = try_threads(n - team + 1) - 1;
    if (more < n - team) startable = n = team + std::max(more, 0);
#pragma omp parallel num_threads(n)
    {
    }
  }
  team = n;  // of a larger team the others end
}

SingleThread::SingleThread(bool active) : before_(single_thread) { single_thread |= active; }
SingleThread::~SingleThread() { single_thread = before_; }

ThreadCount::ThreadCount(int threads) : before_(of_call) { of_call = threads; }
ThreadCount::~ThreadCount() { of_call = before_; }

}  // namespace nsa::cpu
