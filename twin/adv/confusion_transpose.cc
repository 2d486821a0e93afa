#include "twin/adv/confusion_transpose.h"

#include <cstring>

namespace twin {
namespace {

enum Index { kDst, kSrc };

}  // namespace

void RunConfusionTranspose(const char* name, AscendC::TransposeType type,
                           const AscendC::tiling::ConfusionTransposeTiling& tiling,
                           const Operand& dst, const Operand& src, const Where& where) {
  if (type != AscendC::TransposeType::TRANSPOSE_ND2ND_ONLY) {
    Fail(name, where,
         Format("transposeType is %d; of those with a tiling the twin has TRANSPOSE_ND2ND_ONLY, %d",
                static_cast<int>(type),
                static_cast<int>(AscendC::TransposeType::TRANSPOSE_ND2ND_ONLY)));
  }
  Instr instr(name, PIPE_V, where, {dst, src});
  for (int i : {kDst, kSrc}) instr.InMemory(i, {Hardware::UB});
  // GetConfusionTransposeTilingInfo fills it so: elements of a block, the matrix, and what follows.
  const uint64_t width = src.element, per_block = kBlockBytes / width;
  const uint64_t rows = tiling.param1, columns = tiling.param2;
  instr.Check(tiling.param0 == per_block, "tiling.param0 is %u, a block of %s has %u elements",
              tiling.param0, src.dtype, static_cast<unsigned>(per_block));
  instr.Check(rows > 0 && columns > 0 && rows % 16 == 0 && columns % 16 == 0,
              "a matrix of %u by %u; both have to be multiples of 16", tiling.param1,
              tiling.param2);
  instr.Check(
      tiling.param3 == rows / 16 && tiling.param4 == rows && tiling.param5 == columns / per_block,
      "tiling.param3 to param5 are (%u, %u, %u), of this matrix they are (%u, %u, %u)",
      tiling.param3, tiling.param4, tiling.param5, static_cast<unsigned>(rows / 16),
      static_cast<unsigned>(rows), static_cast<unsigned>(columns / per_block));
  const Bytes all{0, rows * columns * width};
  instr.CheckDisjoint(kDst, all, kSrc, all);
  instr.Carries(kSrc);
  instr.Read(kSrc, all);
  instr.Write(kDst, all);
  instr.CountRepeats(CeilDivide(all.count, kRepeatBytes));
  instr.MoveBytes([&] {
    const uint8_t* from = instr.Data<uint8_t>(kSrc);
    uint8_t* to = instr.Data<uint8_t>(kDst);
    for (uint64_t row = 0; row < rows; ++row) {
      for (uint64_t column = 0; column < columns; ++column) {
        std::memcpy(to + (column * rows + row) * width, from + (row * columns + column) * width,
                    width);
      }
    }
  });
}

}  // namespace twin
