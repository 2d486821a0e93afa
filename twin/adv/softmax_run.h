// SoftMax and its relatives: the untyped part. Everything is computed in single precision; halves
// are converted on the way in and, saturating, on the way out.
#pragma once

#include "twin/adv/tiling_data.h"
#include "twin/device/instr.h"

namespace AscendC {

struct SoftMaxShapeInfo {
  uint32_t srcM = 0;  // rows, and columns (a multiple of 32 bytes), padding included
  uint32_t srcK = 0;
  uint32_t oriSrcM = 0;  // without padding
  uint32_t oriSrcK = 0;
};

enum class SoftmaxMode {
  SOFTMAX_NORMAL = 0,
  SOFTMAX_OUTPUT_WITHOUT_BRC = 1,
};

struct SoftmaxConfig {
  bool isCheckTiling = true;
  uint32_t oriSrcM = 0;
  uint32_t oriSrcK = 0;
  SoftmaxMode mode = SoftmaxMode::SOFTMAX_NORMAL;
};
inline constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {true, 0, 0, SoftmaxMode::SOFTMAX_NORMAL};

}  // namespace AscendC

namespace twin {

enum class SoftmaxKind : uint8_t { kSoftmax, kSimple, kFlash, kFlashUpdate, kGradFront };

struct SoftmaxCall {
  const char* name;
  Where where;
  SoftmaxKind kind;
  AscendC::SoftMaxTiling tiling;
  AscendC::SoftMaxShapeInfo shape;
  bool nz;
  bool check_tiling;
  bool one_per_row;  // statistics are (m, 1), not a block per row
  bool basic_block;
};

// Roles of the operands; a null local view is an operand the call does not have.
struct SoftmaxOperands {
  Operand dst;
  Operand src;
  Operand sum;
  Operand max;
  Operand in_sum;  // GradFront: the gradient
  Operand in_max;
  Operand exp_max;
  Operand reduce_max;
  Operand tmp;
};
TWIN_API void RunSoftmax(const SoftmaxCall& call, const SoftmaxOperands& operands);

}  // namespace twin
