// HCCL's types, with the numbers of CANN's public headers.
#pragma once

#include <cstdint>
#include <string>

#include "acl/acl_rt.h"

namespace twin::hccl {

enum Result : int {
  kSuccess = 0,
  kParameter = 1,
  kNullPointer = 2,
  kInternal = 4,
  kNotSupported = 5,
  kNotFound = 6,
  kTimeout = 9,
  kCannotOpen = 10,
  kCannotConnect = 11,
  kRuntime = 15,
  kRemote = 21,
};

enum class DataType : int {
  kInt8 = 0,
  kInt16 = 1,
  kInt32 = 2,
  kFloat16 = 3,
  kFloat32 = 4,
  kInt64 = 5,
  kUint64 = 6,
  kUint8 = 7,
  kUint16 = 8,
  kUint32 = 9,
  kFloat64 = 10,
  kBfloat16 = 11,
};

enum class ReduceOp : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };

constexpr size_t kNameBytes = 128;

// The beginning, which all versions share; `reserved` holds the size and the magic word.
struct Config {
  char reserved[24];
  uint32_t buffer_size;
  uint32_t deterministic;
  char name[kNameBytes];
};
constexpr uint32_t kConfigMagic = 0xf0f0f0f0;

struct RootInfo {
  char internal[4108];
};

struct SendRecvItem {
  int kind;  // 0: send, 1: receive
  void* buffer;
  uint64_t count;
  DataType dtype;
  uint32_t remote_rank;
};

// 0 of a number that is no dtype.
uint64_t SizeOf(DataType dtype);
std::string NameOf(DataType dtype);
std::string NameOf(ReduceOp op);
// "" or what the Atlas A2's HCCL has against reducing this dtype by this operation.
std::string CannotReduce(DataType dtype, ReduceOp op);

// to[i] = to[i] op with[i], rounded to the dtype, as the device does at every step.
void Reduce(DataType dtype, ReduceOp op, uint64_t count, const void* with, void* to);

}  // namespace twin::hccl
