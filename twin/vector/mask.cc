#include "twin/vector/mask.h"

namespace twin {

void SetMaskMode(bool counter, const Where& where) {
  ThisCore(counter ? "SetMaskCount" : "SetMaskNorm", where).registers.counter_mode = counter;
}

void SetMaskWords(uint64_t high, uint64_t low, bool counter, const Where& where) {
  Registers& registers = ThisCore("SetVectorMask", where).registers;
  if (counter && high != 0) {
    Fail("SetVectorMask", where,
         Format("maskHigh is %#llx, in counter mode it has to be 0",
                static_cast<unsigned long long>(high)));
  }
  registers.mask[0] = low;
  registers.mask[1] = high;
  // Without a mode of its own the call is used for both modes.
  registers.mask_kind = counter ? kMaskCount : kMaskEither;
}

void SetMaskLanes(int64_t count, uint32_t width, bool counter, const Where& where) {
  Registers& registers = ThisCore("SetVectorMask", where).registers;
  const int64_t lanes = kRepeatBytes / width;
  if (count < 0 || (!counter && count > lanes)) {
    Fail("SetVectorMask", where,
         Format("len is %lld, a repeat has %lld elements of this type",
                static_cast<long long>(count), static_cast<long long>(lanes)));
  }
  if (counter) {
    registers.mask[0] = static_cast<uint64_t>(count);
    registers.mask[1] = 0;
    registers.mask_kind = kMaskCount;
    return;
  }
  LanesToMask(static_cast<uint64_t>(count), registers.mask);
  registers.mask_kind = kMaskLanes;
}

void ResetMaskRegister(const Where& where) {
  Registers& registers = ThisCore("ResetMask", where).registers;
  registers.mask[0] = registers.mask[1] = ~uint64_t{0};
  registers.mask_kind = kMaskEither;
}

}  // namespace twin
