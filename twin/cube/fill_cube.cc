#include "twin/cube/fill_cube.h"

#include <cstring>

#include "twin/cube/fractal.h"

namespace twin {

void FillCube(const char* name, const Operand& dst, const FillSpec& spec, const Where& where) {
  const bool l1 = dst.local->memory() == Hardware::L1;
  Instr instr(name, l1 ? PIPE_MTE2 : PIPE_MTE1, where, {dst});
  instr.InMemory(0, {Hardware::L1, Hardware::L0A, Hardware::L0B});
  CheckField(instr, "repeatTimes", spec.repeat_times, 0, 32767);
  CheckField(instr, "blockNum", spec.block_num, 0, 32767);
  CheckField(instr, "dstGap", spec.dst_gap, 0, 32767);
  if (spec.repeat_times == 0 || spec.block_num == 0) {
    instr.Warn("instruction without effect", "repeatTimes or blockNum is 0");
    return;
  }
  const uint64_t unit = l1 ? kBlockBytes : kFractalBytes;
  const uint64_t bytes = static_cast<uint64_t>(spec.block_num) * unit;
  const uint64_t pitch = bytes + static_cast<uint64_t>(spec.dst_gap) * unit;
  const uint64_t rows = static_cast<uint64_t>(spec.repeat_times);
  instr.Write(0, Rows{0, rows, bytes, pitch}, static_cast<uint32_t>(unit));
  uint8_t* to = instr.Data<uint8_t>(0);
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t at = 0; at < bytes; at += dst.element) {
      std::memcpy(to + row * pitch + at, &spec.value, dst.element);
    }
  }
}

}  // namespace twin
