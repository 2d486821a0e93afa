// Limits of Ascend's kernels beyond the rules that hold on every target: one table, read by
// Context::limit.
#pragma once

#include <cstdint>

#include "infer/op.h"

namespace nsa {

// The quantity that a row bounds. The operators' rules measure a quantity and hand it to
// Context::limit.
enum class Quantity {
  kBatch,
  kQueryHeads,
  kGroup,
  kHeadDim,
  kValueDim,
  kKeySegment,  // the longest segment of keys
  kQueryLength,
  kKeyLength,
  kCompressBlockSize,
  kCompressStride,
  kSelectBlockSize,
  kSelectBlockCount,
  kBlockStridesExcess,  // select_block_size / compress_stride - 64
};

using OpSet = uint32_t;

constexpr OpSet op_set() { return 0; }
template <class... Rest>
constexpr OpSet op_set(OpId op, Rest... rest) {
  return (OpSet{1} << static_cast<int>(op)) | op_set(rest...);
}

inline constexpr OpSet kCompressOps = op_set(OpId::kNsaCompress, OpId::kNsaCompressGrad);
inline constexpr OpSet kCacheCompressOps = op_set(OpId::kNsaCompressWithCache);
inline constexpr OpSet kCompressAttentionOps = op_set(OpId::kNsaCompressAttention);
inline constexpr OpSet kCompressInferOps =
    op_set(OpId::kNsaCompressAttentionInfer, OpId::kNsaDecode, OpId::kNsaCacheStep);
inline constexpr OpSet kSelectedInferOps = op_set(OpId::kNsaSelectedAttentionInfer);
inline constexpr OpSet kSelectedOps =
    op_set(OpId::kNsaSelectedAttention, OpId::kNsaSelectedAttentionGrad);
inline constexpr OpSet kFlashOps =
    op_set(OpId::kFlashAttentionScore, OpId::kFlashAttentionScoreGrad);

inline constexpr int64_t kNoLimit = INT64_MAX;
inline constexpr int64_t kKibi = 1024;
inline constexpr int64_t kMebi = 1024 * 1024;

struct AscendLimit {
  OpSet ops;
  Quantity quantity;
  const char* argument;
  int64_t min;
  int64_t max;
  int64_t multiple;
  const char* expected = nullptr;  // says it in words where the quantity is a difference
};

// Sums of values must stay within float32 (docs/limits.md, "Large values"), which no quantity of a
// call can tell.
inline constexpr AscendLimit kAscendLimits[] = {
    // Windows are counted in slices of 16 tokens. A head's weight, the sums of the windows that lie
    // over a token and its rows fill the UB; a transfer skips 65535 data blocks between the rows of
    // some heads.
    {kCompressOps, Quantity::kCompressBlockSize, "compress_block_size", 16, 128, 16},
    {kCompressOps, Quantity::kCompressStride, "compress_stride", 16, 128, 16},
    {kCompressOps, Quantity::kQueryHeads, "N of input", 1, 4 * kKibi, 1},
    {kCompressOps, Quantity::kHeadDim, "D of input", 16, 256, 16},

    // The UB holds 16 tokens of a head at a time, whatever the window; 16 elements are a data
    // block.
    // A transfer skips 65535 of them between the rows of some heads.
    {kCacheCompressOps, Quantity::kQueryHeads, "N of input", 1, 2 * kKibi, 1},
    {kCacheCompressOps, Quantity::kHeadDim, "D of input", 16, 512, 16},

    // A window of blocks and their compressed tokens lies in the UB, the lists of the best blocks
    // beside it; a tile of queries, with all heads of a group, in L1; the cube reads 16 columns at
    // a time. The heads of the gradient are those of FlashAttentionScore.
    {kCompressAttentionOps, Quantity::kBlockStridesExcess, "select_block_size", -kNoLimit, 0, 1,
     "at most 64 compress_stride"},
    {kCompressAttentionOps, Quantity::kSelectBlockCount, "select_block_count", 1, 128, 1},
    {kCompressAttentionOps, Quantity::kHeadDim, "D of query", 16, 256, 16},
    {kCompressAttentionOps, Quantity::kValueDim, "Dv of value", 16, 256, 16},
    {kCompressAttentionOps, Quantity::kQueryHeads, "N1 of query", 1, 64 * kKibi, 1},
    {kCompressAttentionOps, Quantity::kGroup, "N1 / N2", 1, 128, 1},

    // 128 rows of 256 columns are what L1 and L0C hold of a query's group; a block of 128 keys is
    // one product; a list of 32 blocks is sorted by one repeat, their numbers as floats, which are
    // exact for 2^24 blocks of at least 16 keys; a row of 16 elements is a data block. A transfer
    // skips 65535 data blocks, four for the list of another key head.
    {kSelectedOps, Quantity::kQueryHeads, "N1 of query", 1, 16 * kKibi, 1},
    {kSelectedOps, Quantity::kGroup, "N1 / N2", 1, 128, 1},
    {kSelectedOps, Quantity::kKeySegment, "longest segment of keys", 0, 256 * kMebi, 1},
    {kSelectedOps, Quantity::kSelectBlockSize, "select_block_size", 16, 128, 16},
    {kSelectedOps, Quantity::kSelectBlockCount, "select_block_count", 1, 32, 1},
    {kSelectedOps, Quantity::kHeadDim, "D of query", 16, 256, 16},
    {kSelectedOps, Quantity::kValueDim, "Dv of value", 16, 256, 16},

    // Rows of the cube as above; a core keeps the blocks of a query where its scalar unit sorts
    // them.
    {kSelectedInferOps, Quantity::kGroup, "N1 / N2", 1, 128, 1},
    {kSelectedInferOps, Quantity::kSelectBlockCount, "select_block_count", 1, 128, 1},
    {kSelectedInferOps, Quantity::kHeadDim, "D of query", 16, 256, 16},
    {kSelectedInferOps, Quantity::kValueDim, "Dv of value", 16, 256, 16},

    // Blocks are ranked as those of NsaCompressAttention are; the cube's rows are those of selected
    // attention.
    {kCompressInferOps, Quantity::kBlockStridesExcess, "select_block_size", -kNoLimit, 0, 1,
     "at most 64 compress_stride"},
    {kCompressInferOps, Quantity::kSelectBlockCount, "select_block_count", 1, 128, 1},
    {kCompressInferOps, Quantity::kGroup, "N1 / N2", 1, 128, 1},
    {kCompressInferOps, Quantity::kHeadDim, "D of query", 16, 256, 16},
    {kCompressInferOps, Quantity::kValueDim, "Dv of value", 16, 256, 16},

    // A batch and its lengths are not empty where they are in the shapes. In TND the statistics of
    // the heads lie side by side, and a transfer skips at most 65535 of them. A tile has at least
    // 16 rows, and with 512 columns of float32 they and their keys fill L1.
    {kFlashOps, Quantity::kBatch, "batch size B", 1, kNoLimit, 1},
    {kFlashOps, Quantity::kQueryHeads, "N1 of query", 1, 64 * kKibi, 1},
    {kFlashOps, Quantity::kQueryLength, "query sequence length", 1, kNoLimit, 1},
    {kFlashOps, Quantity::kKeyLength, "key sequence length", 1, kNoLimit, 1},
    {kFlashOps, Quantity::kHeadDim, "D of query", 1, 512, 1},
    {kFlashOps, Quantity::kValueDim, "Dv of value", 1, 512, 1},
};

// Floating dtypes of the tensors query, key, value, input, ... as a bit set over DType.
using DTypeSet = uint64_t;

constexpr DTypeSet dtype_set() { return 0; }
template <class... Rest>
constexpr DTypeSet dtype_set(DType dtype, Rest... rest) {
  return (DTypeSet{1} << static_cast<int>(dtype)) | dtype_set(rest...);
}

inline constexpr DTypeSet kHalfDTypes = dtype_set(DType::kFloat16, DType::kBFloat16);
inline constexpr DTypeSet kFloatDTypes = kHalfDTypes | dtype_set(DType::kFloat32);

constexpr DTypeSet allowed_floats(OpId op, Target target) {
  const bool half_only =
      target == Target::kAscend && ((kFlashOps >> static_cast<int>(op)) & 1) == 0;
  return half_only ? kHalfDTypes : kFloatDTypes;
}

}  // namespace nsa
