// Buffers of a vector core for a pass: the rows of scores that it computes at a time.
#pragma once

#include "ascendc/attention/attention_tiling.h"

namespace nsa::ascend {

constexpr int32_t kBitRowBytes = kStepKeys / 8;

// Where the inputs of a pass lie in one buffer, in bytes: the scores, and what comes with them.
struct PassInputs {
  uint32_t pse, mask, drop, total;

  // For `rows` rows of 512 keys, or up to `most_rows` rows of fewer.
  __aicore__ constexpr PassInputs(const BiasTiling& bias, int32_t rows, int32_t most_rows,
                                  int32_t element_bytes)
      : pse(Bytes(true, rows * kStepKeys * 4)),
        mask(pse + Bytes(bias.pse == kPseTensor || bias.pse == kPseAlibi,
                         rows * kStepKeys * element_bytes)),
        drop(mask + Bytes(bias.mask != 0, rows * kStepKeys)),
        total(drop + Bytes(bias.drop != 0, 2 * most_rows * kBitRowBytes)) {}

 private:
  __aicore__ static constexpr uint32_t Bytes(bool used, int32_t bytes) {
    return used ? static_cast<uint32_t>(bytes) : 0;
  }
};

// Scratch: the bias in float, and after it, in the same place, the mask in half; bits.
struct PassScratch {
  uint32_t bits, total;

  __aicore__ constexpr PassScratch(const BiasTiling& bias, int32_t rows, int32_t most_rows)
      : bits(static_cast<uint32_t>(rows * kStepKeys) * (bias.pse != kPseNone ? 4
                                                        : bias.mask != 0     ? 2
                                                                             : 0)),
        total(bits > 0 ? bits + static_cast<uint32_t>(most_rows * kBitRowBytes) : 0) {}
};

// The bias that takes the most room.
__aicore__ constexpr BiasTiling EveryBias() {
  BiasTiling bias{};
  bias.pse = kPseTensor;
  bias.mask = 1;
  bias.drop = 1;
  return bias;
}

// Bytes of the mask by visible keys: the columns of a step, bounds of rows, each also as a data
// block, and bits; all but the first twice.
__aicore__ constexpr uint32_t RowMaskBytes(int32_t rows) {
  return kStepKeys * 4 +
         2 * static_cast<uint32_t>(rows) * (4 + kBlockBytes + static_cast<uint32_t>(kBitRowBytes));
}

}  // namespace nsa::ascend
