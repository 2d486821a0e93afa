#include "cpu/engine/threads/workers.h"

#include <sched.h>
#include <strings.h>
#include <time.h>

#include <cstdlib>

#include "cpu/engine/threads/team.h"

namespace nsa::cpu {
namespace {

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

// How long a worker looks for the next region before it sleeps, in ns: as long as it takes to wake.
int64_t lingering() {
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  return policy && strcasecmp(policy, "passive") == 0 ? 0 : 100000;
}

}  // namespace

Team::Team() : linger_(lingering()) {}

Team::~Team() { resize(1); }

int Team::resize(int n) {
  if (n < size()) {
    region_.count = 0;
    staying_ = n;
    begin(n - 1);
    finish();
    for (int i = n - 1; i < size() - 1; ++i) pthread_join(workers_[i]->thread, nullptr);
    workers_.resize(n - 1);
  }
  while (size() < n) {
    auto worker = std::make_unique<Worker>(Worker{this, size(), begun_.load(), {}});
    workers_.reserve(size());
    if (pthread_create(&worker->thread, nullptr, work, worker.get()) != 0) break;
    workers_.push_back(std::move(worker));
    staying_ = size();
  }
  return size();
}

void Team::run(int threads, void (*body)(const void*, const Member&), const void* context) {
  region_ = {};
  region_.count = threads;
  body_ = body;
  context_ = context;
  begin(size() - 1);
  body(context, {region_, 0});
  finish();
}

void Team::begin(int busy) {
  busy_.store(busy, std::memory_order_relaxed);
  // Either a worker that goes to sleep sees the new number, or the sleeper is seen here.
  begun_.fetch_add(1);
  if (sleepers_.load() == 0) return;
  pthread_mutex_lock(&mutex_);
  pthread_mutex_unlock(&mutex_);
  pthread_cond_broadcast(&wake_);
}

void Team::finish() {
  int spins = 0;
  while (busy_.load(std::memory_order_acquire) != 0) wait_turn(spins);
}

void Team::await_region(uint32_t seen) {
  const auto come = [&] { return begun_.load() != seen; };
  constexpr int kLooks = 64;  // some microseconds
  for (int64_t end = -1; end < 0 || now() < end;) {
    for (int i = 0; i < kLooks; ++i) {
      if (come()) return;
      pause();
    }
    // Whoever has work gets the processor.
    sched_yield();
    if (end < 0) end = now() + linger_;
  }
  pthread_mutex_lock(&mutex_);
  sleepers_.fetch_add(1);
  while (!come()) pthread_cond_wait(&wake_, &mutex_);
  sleepers_.fetch_sub(1);
  pthread_mutex_unlock(&mutex_);
}

void* Team::work(void* worker) {
  pthread_setname_np(pthread_self(), "nsa_worker");
  const auto& [team, number, first, thread] = *static_cast<const Worker*>(worker);
  for (uint32_t seen = first;; ++seen) {
    team->await_region(seen);
    if (number >= team->staying_) return nullptr;
    if (number < team->region_.count) team->body_(team->context_, {team->region_, number});
    team->busy_.fetch_sub(1, std::memory_order_release);
  }
}

void barrier(Region& region) {
  const int32_t generation = __atomic_load_n(&region.generation, __ATOMIC_RELAXED);
  if (__atomic_add_fetch(&region.arrived, 1, __ATOMIC_ACQ_REL) == region.count) {
    __atomic_store_n(&region.arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&region.next, int64_t{0}, __ATOMIC_RELAXED);
    __atomic_store_n(&region.generation, generation + 1, __ATOMIC_RELEASE);
    return;
  }
  int spins = 0;
  while (__atomic_load_n(&region.generation, __ATOMIC_ACQUIRE) == generation) wait_turn(spins);
}

}  // namespace nsa::cpu
