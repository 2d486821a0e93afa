// The threads of a kernel call. Units of every instruction set include this: plain data, and calls
// of what threads.cc and workers.cc define.
#pragma once

#include <cstdint>

namespace nsa::cpu {

// What the members of a team share while they work on one region.
struct Region {
  int32_t count = 1;                // members
  alignas(64) int64_t next = 0;     // of take()
  alignas(64) int32_t arrived = 0;  // at the next meeting
  int32_t meetings = 0;
};

// Returns when all members have called it. What they wrote before is seen by all after it, and
// take() begins anew.
void meet(Region& region);

// A member of a team at work.
struct Member {
  Region& region;
  int32_t number;  // from 0, the calling thread's, to region.count

  [[gnu::always_inline]] void meet() const { cpu::meet(region); }

  // each(i) for this member's share of 0 <= i < n, which are neighbours.
  template <class Each>
  [[gnu::always_inline]] void share(int64_t n, const Each& each) const {
    const int64_t count = region.count, whole = n / count, more = n % count;
    const int64_t first = number * whole + (number < more ? number : more);
    const int64_t past = first + whole + (number < more ? 1 : 0);
    for (int64_t i = first; i < past; ++i) each(i);
  }

  // each(i) for all 0 <= i < n in this order, every i in the member that is free first. Members
  // meet between two of these.
  template <class Each>
  [[gnu::always_inline]] void take(int64_t n, const Each& each) const {
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

template <class Body>
inline void in_team(int threads, const Body& body) {
  run_region(
      threads,
      [](const void* context, const Member& member) {
        (*static_cast<const Body*>(context))(member);
      },
      &body);
}

}  // namespace
}  // namespace nsa::cpu
