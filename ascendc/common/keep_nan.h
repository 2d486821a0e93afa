// Results in half and bfloat16_t keep infinities and NaN while an object of this class lives.
#pragma once

#include "kernel_operator.h"

namespace nsa::ascend {

// The mode belongs to the core, not to a kernel: nobody sets it before a kernel starts, and the
// next one finds what this one leaves. Saturating, the mode after a reset, would hide a NaN as 0.
class KeepNan {
 public:
  __aicore__ inline KeepNan() : kept_((get_ctrl() >> kKeepBit & 1) != 0) {
    set_ctrl(sbitset1(get_ctrl(), kKeepBit));
  }
  __aicore__ inline ~KeepNan() {
    // Conversions that were issued may still wait for their turn.
    AscendC::PipeBarrier<PIPE_ALL>();
    if (!kept_) set_ctrl(sbitset0(get_ctrl(), kKeepBit));
  }
  KeepNan(const KeepNan&) = delete;
  KeepNan& operator=(const KeepNan&) = delete;

 private:
  // Bit of the control register. CANN has had these intrinsics for longer than SetSaturationFlag.
  static constexpr int kKeepBit = 48;

  bool kept_;
};

}  // namespace nsa::ascend
