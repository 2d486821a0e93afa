// Writes zeros to global memory from one small buffer.
#pragma once

#include "ascendc/common/pipe_order.h"
#include "kernel_operator.h"

namespace nsa::ascend {

template <typename T>
class ZeroFill {
  static_assert(sizeof(T) == 2, "ZeroFill writes 16-bit types");

 public:
  // `zeros` holds `capacity` elements, a multiple of 16, and is this object's until Finish.
  __aicore__ inline void Start(AscendC::LocalTensor<T> zeros, int32_t capacity) {
    zeros_ = zeros;
    capacity_ = capacity;
    AscendC::PipeBarrier<PIPE_V>();
    // Zero has the same bits in every 16-bit type.
    AscendC::Duplicate(zeros.template ReinterpretCast<int16_t>(), static_cast<int16_t>(0),
                       capacity);
    Order<AscendC::HardEvent::V_MTE3>();
  }
  // `count`: a multiple of 16.
  __aicore__ inline void Fill(const AscendC::GlobalTensor<T>& to, int64_t begin, int64_t count) {
    for (int64_t done = 0; done < count; done += capacity_) {
      const int64_t left = count - done;
      AscendC::DataCopy(to[begin + done], zeros_,
                        static_cast<uint32_t>(left < capacity_ ? left : capacity_));
    }
  }
  __aicore__ inline void Finish() { Order<AscendC::HardEvent::MTE3_V>(); }

 private:
  AscendC::LocalTensor<T> zeros_;
  int32_t capacity_ = 0;
};

}  // namespace nsa::ascend
