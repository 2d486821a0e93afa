// Shared by the tiling on the host and the kernels of every operator: sizes of the machine, and
// rounding.
#pragma once

#include <cstdint>

// A host compiler knows no cores.
#ifndef __aicore__
#define __aicore__
#endif

namespace nsa::ascend {

constexpr uint32_t kBlockBytes = 32;  // of a data block, the unit of strides and of alignment
constexpr int32_t kBlockFloats = 8;
constexpr int32_t kRepeatFloats = 64;  // of one repeat of a vector instruction
constexpr int32_t kMaxRepeats = 255;
// Unified Buffer of a vector core without the 8 KB that some instructions use as scratch and the
// 256 bytes that the framework reserves.
constexpr uint32_t kUbBytes = 192 * 1024 - 8 * 1024 - 256;
// No Atlas A2 has more vector cores. Per-core fields of the tiling data have this length.
constexpr int32_t kMaxCores = 48;
// Tiling data that CANN makes room for unless told otherwise.
constexpr uint32_t kMaxTilingBytes = 2048;

__aicore__ constexpr int32_t CeilDiv(int32_t a, int32_t b) { return (a + b - 1) / b; }
__aicore__ constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
__aicore__ constexpr int64_t Max(int64_t a, int64_t b) { return a < b ? b : a; }

}  // namespace nsa::ascend
