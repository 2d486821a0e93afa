// For loops that wait for another thread.
#pragma once

#include <sched.h>

#include <cstdint>

namespace nsa::cpu {
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

}  // namespace
}  // namespace nsa::cpu
