// Scratch for tests, linked instead of cpu/engine/threads/scratch.cc: every call gets fresh memory
// of the size it asked for, full of NaN, so that what a kernel reads unwritten or past the end
// shows.
#include <cstdlib>
#include <cstring>
#include <new>

#include "cpu/engine/threads/scratch.h"
#include "cpu/runtime.h"
#include "cpu/types.h"

namespace nsa::cpu {

namespace {
// Vector loads may touch the cache line after the last element.
constexpr int64_t kTail = 64;
}  // namespace

Scratch::Scratch(int64_t bytes) : bytes_(bytes) {
  const size_t total = static_cast<size_t>(round_up(bytes, 64) + kTail);
  data_ = static_cast<char*>(std::aligned_alloc(64, total));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_, 0xFF, total);
}

Scratch::~Scratch() { std::free(data_); }

int64_t scratch_high_water() { return 0; }
void reset_scratch_high_water() {}

}  // namespace nsa::cpu
