// Memory that a later product will read, asked for while this one computes. Asked for all at once,
// the lines would wait for each other, and the loads behind them.
#pragma once

#include "cpu/engine/threads/scratch.h"
#include "cpu/types.h"

namespace nsa::cpu {
namespace {

class Ahead {
 public:
  static Ahead carve(Arena& arena, int64_t ranges) {
    Ahead a;
    a.ranges_ = arena.take<Range>(ranges);
    return a;
  }

  // A new list.
  void clear() { count_ = next_ = lines_ = at_once_ = 0; }

  // n elements of p, from `offset` on.
  void add(ElemType t, const void* p, int64_t offset, int64_t n) {
    const char* at = static_cast<const char*>(p) + offset * elem_size(t);
    ranges_[count_++] = {at, n * elem_size(t)};
    lines_ += ceil_div(n * elem_size(t), kLine);
  }
  void add(const float* p, int64_t n) { add(ElemType::kFloat32, p, 0, n); }

  // The list is complete; step() will be called so many times.
  void over(int64_t steps) { at_once_ = ceil_div(lines_, max64(steps, 1)); }

  // Asks for the next few lines. The range is kept in registers: written back for every line it
  // would cost six cycles for each.
  void step() {
    if (next_ == count_) return;
    Range range = ranges_[next_];
    for (int64_t left = at_once_; left > 0; --left) {
      __builtin_prefetch(range.at, 0, 2);
      range.at += kLine;
      range.bytes -= kLine;
      if (range.bytes > 0) continue;
      if (++next_ == count_) return;
      range = ranges_[next_];
    }
    ranges_[next_] = range;
  }

 private:
  static constexpr int64_t kLine = 64;
  struct Range {
    const char* at;
    int64_t bytes;  // left
  };

  Range* ranges_ = nullptr;
  int64_t count_ = 0, next_ = 0, lines_ = 0, at_once_ = 0;
};

}  // namespace
}  // namespace nsa::cpu
