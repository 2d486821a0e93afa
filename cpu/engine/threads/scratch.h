// Scratch memory of one kernel call: aligned, counted, freed at the end of the call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nsa::cpu {

// Buffers of two threads are a page apart: otherwise the hardware prefetcher would fetch lines that
// the neighbour writes.
constexpr int64_t kPage = 4096;

// Distance from what a thread takes to what the next one does, `bytes` each.
constexpr int64_t thread_space(int64_t bytes) { return (bytes + 63) / 64 * 64 + kPage; }

// Hands out cache-line aligned memory of one allocation. With a null base it only measures.
struct Arena {
  char* base = nullptr;
  int64_t used = 0;

  template <class T>
  T* take(int64_t count) {
    int64_t at = (used + 63) / 64 * 64;
    used = at + count * static_cast<int64_t>(sizeof(T));
    return base ? reinterpret_cast<T*>(base + at) : nullptr;
  }

  // `space` bytes for every thread, as thread_space() gives them.
  char* take_threads(int threads, int64_t space) {
    used += kPage;
    return take<char>(threads * space);
  }
};

namespace {

// Bytes that carve(arena) takes, whole cache lines.
template <class Carve>
inline int64_t measured(const Carve& carve) {
  Arena arena;
  carve(arena);
  return (arena.used + 63) / 64 * 64;
}

}  // namespace

class Scratch {
 public:
  // Allocates what carve(arena) takes: it runs twice, first to measure. Throws std::bad_alloc.
  template <class Carve>
  explicit Scratch(const Carve& carve) : Scratch(measured(carve)) {
    Arena arena{data_};
    carve(arena);
  }
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  explicit Scratch(int64_t bytes);

  char* data_;
  int64_t bytes_;
};

}  // namespace nsa::cpu
