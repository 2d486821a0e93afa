#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>

#include "cpu/engine/threads/team.h"
#include "cpu/engine/threads/workers.h"

namespace nsa::cpu {
namespace {

std::atomic<int> chosen{0};
thread_local int of_call = 0;  // ThreadCount
thread_local bool single_thread = false;
thread_local bool forked = false;  // this thread lived through a fork
thread_local std::unique_ptr<Team> team;
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

void in_forked_child() {
  forked = true;
  static_cast<void>(team.release());  // its workers are not in the child
}

const int registered = pthread_atfork(nullptr, nullptr, in_forked_child);

}  // namespace

int num_threads() { return std::min(wanted(), startable); }

void set_num_threads(int n) { chosen.store(std::clamp(n, 0, kMaxThreads)); }

void start_team() {
  const int n = wanted();
  startable = INT_MAX;
  if (n == 1) return;
  if (!team) team = std::make_unique<Team>();
  if (team->size() == n) return;
  if (const int started = team->resize(n); started < n) startable = started;
}

void run_region(int threads, void (*body)(const void*, const Member&), const void* context) {
  const int count = team ? std::min(threads, team->size()) : 1;
  if (count > 1) return team->run(count, body, context);
  Region alone;
  body(context, {alone, 0});
}

SingleThread::SingleThread(bool active) : before_(single_thread) { single_thread |= active; }
SingleThread::~SingleThread() { single_thread = before_; }

ThreadCount::ThreadCount(int threads) : before_(of_call) { of_call = threads; }
ThreadCount::~ThreadCount() { of_call = before_; }

}  // namespace nsa::cpu
