// A calling thread and its workers. OpenMP's threads spin for 3 to 10 ms before they sleep, which
// no call can change: a thread of MindSpore's that has a share of the next operator would wait
// behind them for a turn of the processor. It also ends the process when a thread cannot be
// started.
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>
#include <vector>

#include "cpu/engine/threads/team.h"

namespace nsa::cpu {

class Team {
 public:
  Team();
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return 1 + static_cast<int>(workers_.size()); }

  // Starts or ends workers until there are n threads, and gives how many there are: fewer where no
  // more could be started.
  int resize(int n);

  // run_region() on this team; threads is at most size().
  void run(int threads, void (*body)(const void*, const Member&), const void* context);

 private:
  struct Worker {
    Team* team;
    int number;
    uint32_t seen;  // regions begun before
    pthread_t thread;
  };

  static void* work(void* worker);
  void begin(int busy);
  void finish();
  void await_region(uint32_t seen);

  std::vector<std::unique_ptr<Worker>> workers_;
  const int64_t linger_;  // ns

  // The running region; workers with a number from staying_ on end.
  void (*body_)(const void*, const Member&) = nullptr;
  const void* context_ = nullptr;
  Region region_;
  int staying_ = 1;
  alignas(64) std::atomic<uint32_t> begun_{0};
  alignas(64) std::atomic<int> busy_{0};  // workers that are not done with it
  std::atomic<int> sleepers_{0};
  // gcc 12's std::condition_variable would ask for a newer libstdc++ than the rest.
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace nsa::cpu
