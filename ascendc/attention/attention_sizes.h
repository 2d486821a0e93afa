// Tiles of the attention kernels and what they take of the memories of a core.
#pragma once

#include "ascendc/common/machine.h"

namespace nsa::ascend {

constexpr int32_t kTileRows = 128;      // queries of a tile, at most
constexpr int32_t kStepKeys = 512;      // keys of a step: one maximum and one O for all of them
constexpr int32_t kTileKeys = 128;      // keys of one product of queries and keys
constexpr int32_t kTransferKeys = 256;  // keys that one transfer brings into L1, at most
constexpr int32_t kStepsAhead = 2;      // scores are computed before the output needs them
constexpr int32_t kSlots = kStepsAhead + 1;  // of every buffer between the cube and the vectors
constexpr int32_t kRowMultiple = 8;          // rows whose statistics fill a data block

constexpr uint32_t kL1Bytes = 512 * 1024 - 256;
constexpr uint32_t kL0Bytes = 64 * 1024;  // of L0A and of L0B
constexpr uint32_t kL0cBytes = 128 * 1024;

// L1: two tiles of queries, two transfers of keys or values, two of probabilities.
constexpr uint32_t kQuerySlotBytes = 48 * 1024;
constexpr uint32_t kKeySlotBytes = 128 * 1024;
constexpr uint32_t kProbabilitySlotBytes = 64 * 1024;
static_assert(2 * (kQuerySlotBytes + kKeySlotBytes + kProbabilitySlotBytes) <= kL1Bytes);
// L0A, L0B and L0C hold two tiles each.
constexpr uint32_t kL0SlotBytes = kL0Bytes / 2;
constexpr uint32_t kL0cSlotBytes = kL0cBytes / 2;
constexpr int32_t kL0cSlotFloats = kL0cSlotBytes / 4;
static_assert(kTileRows * kTileKeys <= kL0cSlotFloats);

__aicore__ constexpr int32_t RoundUp(int32_t value, int32_t multiple) {
  return CeilDiv(value, multiple) * multiple;
}
__aicore__ constexpr int32_t RoundDown(int32_t value, int32_t multiple) {
  return value / multiple * multiple;
}

// Rows of a tile that are the first vector core's of the two, at most.
__aicore__ constexpr int32_t HalfRows(int32_t rows) {
  return CeilDiv(rows, 2 * kRowMultiple) * kRowMultiple;
}

// The part of `rows` that one of the two vector cores has.
struct RowShare {
  int32_t begin, rows;

  __aicore__ constexpr RowShare(int64_t core, int32_t all)
      : begin(core == 0 ? 0 : First(all)), rows(core == 0 ? First(all) : all - First(all)) {}

 private:
  __aicore__ static constexpr int32_t First(int32_t all) {
    return static_cast<int32_t>(Min(HalfRows(all), all));
  }
};

// How two head dimensions and an element size cut up the work of the cube.
struct CubeTiles {
  int32_t rows;        // queries of a tile
  int32_t key_rows;    // keys of a transfer into L1
  int32_t value_rows;  // values, and columns of probabilities

  __aicore__ constexpr CubeTiles(int32_t dim, int32_t value_dim, int32_t element_bytes)
      : rows(RoundDown(static_cast<int32_t>(Min(
                           Min(kTileRows, kProbabilitySlotBytes / (kTransferKeys * element_bytes)),
                           Min(kL0cSlotFloats / RoundUp(value_dim, 16),
                               kQuerySlotBytes / (RoundUp(dim, 16) * element_bytes)))),
                       16)),
        key_rows(TransferRows(dim, element_bytes)),
        value_rows(TransferRows(value_dim, element_bytes)) {}

 private:
  __aicore__ static constexpr int32_t TransferRows(int32_t dim, int32_t element_bytes) {
    return RoundDown(static_cast<int32_t>(
                         Min(kTransferKeys, kKeySlotBytes / (RoundUp(dim, 16) * element_bytes))),
                     16);
  }
};

static_assert(CubeTiles(128, 128, 2).rows == 128 && CubeTiles(128, 128, 2).key_rows == 256);
static_assert(CubeTiles(192, 128, 2).rows == 128 && CubeTiles(192, 128, 2).key_rows == 256);
static_assert(CubeTiles(512, 512, 2).rows == 32 && CubeTiles(512, 512, 4).rows == 16);

}  // namespace nsa::ascend
