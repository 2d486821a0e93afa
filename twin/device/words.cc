#include "twin/device/words.h"

#include "twin/device/launch_state.h"

namespace twin {

int64_t BlockOfCore(const Where& where) { return ThisCore("block_idx", where).block; }

int64_t SystemCycle(const Where& where) {
  const Core& core = ThisCore("GetSystemCycle", where);
  int64_t issued = 0;
  for (int p = 0; p < kPipes; ++p) issued += core.issued[p];
  return issued;
}

void ResetState(const Where& where) {
  Registers& registers = ThisCore("InitSocState", where).registers;
  registers.atomic = kAtomicNone;
  registers.counter_mode = false;
  registers.mask[0] = registers.mask[1] = ~0ull;
  registers.mask_kind = 0;
}

}  // namespace twin
