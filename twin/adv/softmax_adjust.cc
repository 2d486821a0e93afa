#include <cstring>

#include "twin/adv/softmax.h"
#include "twin/device/instr.h"

namespace twin {

bool RunAdjustSoftMaxRes(const Operand& res, const Operand& max, const SoftmaxAdjust& what,
                         const Where& where) {
  Instr instr("AdjustSoftMaxRes", PIPE_V, where, {res, max});
  // The API waits for the vector pipe before it looks at the maxima.
  instr.InPipeOrder();
  const uint64_t row_bytes = uint64_t{what.columns} * res.element;
  instr.Check(what.columns > 0 && row_bytes % kBlockBytes == 0,
              "srcK is %u, expected whole blocks of 32 bytes", what.columns);
  const uint64_t step = what.every_element ? max.element : kBlockBytes;
  instr.Read(1, Rows{0, what.rows, max.element, step}, 0);
  bool found = false;
  for (uint64_t row = 0; row < what.rows; ++row) {
    uint32_t bits = 0;
    std::memcpy(&bits, instr.Data<uint8_t>(1) + row * step, max.element);
    if (bits != what.from) continue;
    found = true;
    instr.Write(0, Bytes{row * row_bytes, row_bytes});
    uint8_t* const to = instr.Data<uint8_t>(0) + row * row_bytes;
    for (uint64_t at = 0; at < row_bytes; at += res.element) {
      std::memcpy(to + at, &what.to, res.element);
    }
  }
  instr.CountRepeats(what.rows);
  return found;
}

}  // namespace twin
