// Scratch memory of one kernel call: aligned, counted, freed at the end of the call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nsa::cpu {

// Parts of two threads are a page apart: what a processor reads ahead in the page it works on would
// otherwise be lines that its neighbour writes.
constexpr int64_t kPage = 4096;

// Distance of two threads' parts that use `bytes` each.
constexpr int64_t thread_part(int64_t bytes) { return (bytes + 63) / 64 * 64 + kPage; }

// Hands out cache-line aligned parts of one block. With a null base it only measures.
struct Arena {
  char* base = nullptr;
  int64_t used = 0;

  template <class T>
  T* take(int64_t count) {
    int64_t at = (used + 63) / 64 * 64;
    used = at + count * static_cast<int64_t>(sizeof(T));
    return base ? reinterpret_cast<T*>(base + at) : nullptr;
  }

  // One part for every thread; `part` as thread_part() gives it.
  char* take_threads(int threads, int64_t part) {
    used += kPage;
    return take<char>(threads * part);
  }
};

class Scratch {
 public:
  explicit Scratch(int64_t bytes);  // throws std::bad_alloc
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* data() const { return data_; }

 private:
  char* data_;
  int64_t bytes_;
};

}  // namespace nsa::cpu
