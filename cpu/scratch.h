// Scratch memory of one kernel call: aligned, counted, freed at the end of the call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nsa::cpu {

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
