#include "twin/adv/fill.h"

namespace twin {

bool FilledBefore(const char* name, const LocalView& values, uint32_t width, uint64_t value,
                  const Where& where) {
  Core& core = ThisCore(name, where);
  const LastFill& last = core.last_fill;
  const bool same = last.bytes >= values.bytes && last.address == values.address &&
                    last.element == width && last.value == value;
  constexpr uint8_t kVector = PipeIndex(PIPE_V);
  if (!same ||
      !UseMemory(core, Hardware::UB)
           .shadow.WrittenBy(core.index, kVector, last.seq, values.address, values.bytes)) {
    return false;
  }
  Instr instr(name, PIPE_V, where, {});
  instr.CountRepeats(CeilDivide(values.bytes, kRepeatBytes));
  return true;
}

void RememberFill(const LocalView& values, uint32_t width, uint64_t value) {
  Core& core = *current_core;
  core.last_fill = {values.address, values.bytes, width, value, core.issued[PipeIndex(PIPE_V)]};
}

}  // namespace twin
