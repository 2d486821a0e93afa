// Results in half and bfloat16_t keep infinities and NaN while an object of this class lives.
#pragma once

#include "kernel_operator.h"

namespace nsa::ascend {

// The mode belongs to the core, not to a kernel: nobody sets it before a kernel starts, and the
// next one finds what this one leaves. Saturating, the mode after a reset, would hide a NaN as 0.
class KeepNan {
 public:
  __aicore__ inline KeepNan()
      : saturated_(AscendC::GetSaturationFlag<AscendC::SaturationMode::FLOAT>()) {
    AscendC::SetSaturationFlag<AscendC::SaturationMode::FLOAT>(false);
  }
  __aicore__ inline ~KeepNan() {
    // Conversions that were issued may still wait for their turn.
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::SetSaturationFlag<AscendC::SaturationMode::FLOAT>(saturated_);
  }
  KeepNan(const KeepNan&) = delete;
  KeepNan& operator=(const KeepNan&) = delete;

 private:
  bool saturated_;
};

}  // namespace nsa::ascend
