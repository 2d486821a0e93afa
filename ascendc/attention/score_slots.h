// Two slots of the UB for the rows of passes on their way to the vector unit. A large pass takes
// both.
#pragma once

#include "ascendc/attention/pass_rows.h"

namespace nsa::ascend {

// Passes are filled, and used, one after the other.
class ScoreSlots {
 public:
  // `memory` holds two slots.
  __aicore__ inline void Start(const AscendC::LocalTensor<float>& memory, int32_t slot_floats) {
    memory_ = memory;
    slot_floats_ = slot_floats;
    for (int32_t slot = 0; slot < 2; ++slot) {
      filled_[slot] = GetTPipePtr()->AllocEventID<AscendC::HardEvent::MTE2_V>();
      free_[slot] = GetTPipePtr()->AllocEventID<AscendC::HardEvent::V_MTE2>();
      AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(free_[slot]);
    }
  }
  __aicore__ inline void Finish() {
    for (int32_t slot = 0; slot < 2; ++slot) {
      AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(free_[slot]);
      GetTPipePtr()->ReleaseEventID<AscendC::HardEvent::MTE2_V>(filled_[slot]);
      GetTPipePtr()->ReleaseEventID<AscendC::HardEvent::V_MTE2>(free_[slot]);
    }
  }

  __aicore__ inline bool IsLarge(int32_t floats) const { return floats > slot_floats_; }

  // The next pass's slot, when whoever used it is done. Fill it on MTE2, then call EndFill.
  __aicore__ inline int32_t BeginFill(bool large) {
    const int32_t slot = large ? 0 : fill_;
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(free_[slot]);
    if (large) AscendC::WaitFlag<AscendC::HardEvent::V_MTE2>(free_[1]);
    return slot;
  }
  __aicore__ inline void EndFill(bool large) {
    AscendC::SetFlag<AscendC::HardEvent::MTE2_V>(filled_[large ? 0 : fill_]);
    fill_ = large ? 0 : fill_ ^ 1;
  }
  // Slot of the pass that was filled first. Use it on the vector pipe, then call EndUse.
  __aicore__ inline int32_t BeginUse(bool large) {
    const int32_t slot = large ? 0 : use_;
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_V>(filled_[slot]);
    return slot;
  }
  __aicore__ inline void EndUse(bool large) {
    AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(free_[large ? 0 : use_]);
    if (large) AscendC::SetFlag<AscendC::HardEvent::V_MTE2>(free_[1]);
    use_ = large ? 0 : use_ ^ 1;
  }

  __aicore__ inline AscendC::LocalTensor<float> Slot(int32_t slot) const {
    return memory_[static_cast<uint32_t>(slot * slot_floats_)];
  }

 private:
  AscendC::LocalTensor<float> memory_;
  int32_t slot_floats_ = 0;
  AscendC::TEventID filled_[2] = {0, 0}, free_[2] = {0, 0};
  int32_t fill_ = 0, use_ = 0;
};

}  // namespace nsa::ascend
