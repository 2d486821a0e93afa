// Waiting for what another thread changes.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace twin {

// Until `done()`, or for `timeout` milliseconds; a negative one is for ever. What waits for ever is
// not wait() of the condition variable: GCC 12 gave that a new version, GLIBCXX_3.4.30, which the
// libstdc++ of manylinux_2_34 does not have. pthread_cond_wait is what it calls.
template <typename Done>
void WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
               int32_t timeout, Done done) {
  if (timeout < 0) {
    while (!done()) pthread_cond_wait(changed.native_handle(), lock.mutex()->native_handle());
  } else {
    changed.wait_for(lock, std::chrono::milliseconds(timeout), done);
  }
}

}  // namespace twin
