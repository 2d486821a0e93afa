#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>

#include "cpu/runtime.h"

namespace nsa::cpu {
namespace {

std::atomic<int> chosen{0};
thread_local bool single_thread = false;

int allowed_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1 << 20;  // more processors than the set holds
  return CPU_COUNT(&set);
}

}  // namespace

int num_threads() {
  int n = chosen.load();
  if (n > 0) return n;
  if (single_thread) return 1;
  return std::max(1, std::min(omp_get_max_threads(), allowed_processors()));
}

void set_num_threads(int n) { chosen.store(std::max(0, n)); }

SingleThread::SingleThread(bool active) : before_(single_thread) { single_thread |= active; }
SingleThread::~SingleThread() { single_thread = before_; }

}  // namespace nsa::cpu
