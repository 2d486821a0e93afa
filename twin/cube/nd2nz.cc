// From rows in GM to column blocks of 32 bytes in L1.
#include <algorithm>
#include <cstring>
#include <vector>

#include "twin/cube/fractal.h"
#include "twin/cube/move.h"
#include "twin/device/launch_state.h"

namespace twin {
namespace {

using AscendC::Nd2NzParams;

void CheckArguments(const Instr& instr, const Nd2NzParams& params, uint32_t element) {
  CheckField(instr, "ndNum", params.ndNum.wide(), 0, 4095);
  CheckField(instr, "nValue", params.nValue.wide(), 0, 16384);
  CheckField(instr, "dValue", params.dValue.wide(), 0, 65535);
  CheckField(instr, "srcNdMatrixStride", params.srcNdMatrixStride.wide(), 0, 65535);
  CheckField(instr, "srcDValue", params.srcDValue.wide(), 1, 65535);
  CheckField(instr, "dstNzC0Stride", params.dstNzC0Stride.wide(), 1, 16384);
  CheckField(instr, "dstNzNStride", params.dstNzNStride.wide(), 1, 16384);
  CheckField(instr, "dstNzMatrixStride", params.dstNzMatrixStride.wide(), 0, 65535);
  instr.Check(params.ndNum <= 1 || params.dstNzMatrixStride * element % kBlockBytes == 0,
              "dstNzMatrixStride is %u elements, %u bytes, expected a multiple of 32 bytes",
              static_cast<unsigned>(params.dstNzMatrixStride), params.dstNzMatrixStride * element);
}

// Blocks of 32 bytes from the start of dst.
struct Target {
  uint64_t matrices, columns, rows;
  uint64_t matrix_stride, column_stride, row_stride;

  uint64_t At(uint64_t matrix, uint64_t column, uint64_t row) const {
    return matrix * matrix_stride + column * column_stride + row * row_stride;
  }
};

void CheckNoBlockTwice(const Instr& instr, const Target& t) {
  const uint64_t row_span = (t.rows - 1) * t.row_stride + 1;
  const uint64_t column_span = (t.columns - 1) * t.column_stride + 1;
  const bool matrix_apart =
      t.columns == 1 || t.column_stride >= row_span || t.rows == 1 || t.row_stride >= column_span;
  const bool matrices_apart =
      t.matrices == 1 || t.matrix_stride >= t.At(0, t.columns - 1, t.rows - 1) + 1;
  if (matrix_apart && matrices_apart) return;
  const uint64_t count = t.matrices * t.columns * t.rows;
  instr.Check(count <= MemoryBytes(Hardware::L1) / kBlockBytes,
              "illegal overlap: %llu blocks of 32 bytes are written, more than L1 holds",
              static_cast<unsigned long long>(count));
  std::vector<uint64_t> blocks;
  blocks.reserve(count);
  for (uint64_t matrix = 0; matrix < t.matrices; ++matrix) {
    for (uint64_t column = 0; column < t.columns; ++column) {
      for (uint64_t row = 0; row < t.rows; ++row) blocks.push_back(t.At(matrix, column, row));
    }
  }
  std::sort(blocks.begin(), blocks.end());
  const auto twice = std::adjacent_find(blocks.begin(), blocks.end());
  if (twice == blocks.end()) return;
  instr.Fail(
      Format("illegal overlap: dstNzC0Stride, dstNzNStride and dstNzMatrixStride let two rows "
             "meet at byte %llu of dst, in no fixed order",
             static_cast<unsigned long long>(*twice * kBlockBytes)));
}

}  // namespace

void CopyNd2Nz(const Operand& dst, const Operand& src, const Nd2NzParams& params,
               const Where& where) {
  const char* name = "DataCopy";
  MaySwitch(ThisCore(name, where));
  Instr instr(name, PIPE_MTE2, where, {dst, src});
  instr.InMemory(0, {Hardware::L1});
  const uint64_t element = src.element;
  CheckArguments(instr, params, src.element);
  if (params.ndNum == 0 || params.nValue == 0 || params.dValue == 0) {
    instr.Warn("instruction without effect", "ndNum, nValue or dValue is 0");
    return;
  }
  const uint64_t row_bytes = params.dValue * element;
  const Target t{params.ndNum,         CeilDivide(row_bytes, kBlockBytes),
                 params.nValue,        params.dstNzMatrixStride * element / kBlockBytes,
                 params.dstNzC0Stride, params.dstNzNStride};
  CheckNoBlockTwice(instr, t);
  const uint64_t src_pitch = params.srcDValue * element;
  const uint64_t src_matrix = params.srcNdMatrixStride * element;
  instr.Carries(1);
  for (uint64_t matrix = 0; matrix < t.matrices; ++matrix) {
    instr.Read(1, Rows{matrix * src_matrix, t.rows, row_bytes, src_pitch});
  }
  for (uint64_t matrix = 0; matrix < t.matrices; ++matrix) {
    for (uint64_t column = 0; column < t.columns; ++column) {
      instr.Write(0, Rows{t.At(matrix, column, 0) * kBlockBytes, t.rows, kBlockBytes,
                          t.row_stride * kBlockBytes});
    }
  }
  instr.MoveBytes([&] {
    uint8_t* to = instr.Data<uint8_t>(0);
    const uint8_t* from = instr.Data<uint8_t>(1);
    for (uint64_t matrix = 0; matrix < t.matrices; ++matrix) {
      for (uint64_t row = 0; row < t.rows; ++row) {
        const uint8_t* line = from + matrix * src_matrix + row * src_pitch;
        for (uint64_t column = 0; column < t.columns; ++column) {
          uint8_t* block = to + t.At(matrix, column, row) * kBlockBytes;
          const uint64_t begin = column * kBlockBytes;
          const uint64_t here = std::min<uint64_t>(kBlockBytes, row_bytes - begin);
          std::memcpy(block, line + begin, here);
          std::memset(block + here, 0, kBlockBytes - here);
        }
      }
    }
  });
}

}  // namespace twin
