// Dtypes, and the operations between the elements of two workers.
#include <cstring>
#include <type_traits>

#include "acl/acl_base.h"
#include "twin/cann/hccl/types.h"

namespace twin::hccl {

namespace {

struct Named {
  const char* name;
  uint64_t size;
};

constexpr Named kDtypes[] = {
    {"int8", 1},   {"int16", 2}, {"int32", 4},  {"float16", 2}, {"float32", 4}, {"int64", 8},
    {"uint64", 8}, {"uint8", 1}, {"uint16", 2}, {"uint32", 4},  {"float64", 8}, {"bfloat16", 2},
};
constexpr int kDtypeCount = sizeof(kDtypes) / sizeof(kDtypes[0]);
constexpr const char* kOps[] = {"sum", "prod", "max", "min"};

bool Known(DataType dtype) {
  return static_cast<int>(dtype) >= 0 && static_cast<int>(dtype) < kDtypeCount;
}

bool Known(ReduceOp op) { return op >= ReduceOp::kSum && op <= ReduceOp::kMin; }

// Sums and products of integers wrap around, which is defined for unsigned ones.
template <typename Value>
Value Combine(ReduceOp op, Value a, Value b) {
  if (op == ReduceOp::kMax) return a < b ? b : a;
  if (op == ReduceOp::kMin) return b < a ? b : a;
  if constexpr (std::is_integral<Value>::value) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<Value>(op == ReduceOp::kSum ? x + y : x * y);
  } else {
    return op == ReduceOp::kSum ? a + b : a * b;
  }
}

template <typename Value>
void ReduceAs(ReduceOp op, uint64_t count, const void* with, void* to) {
  const auto* from = static_cast<const Value*>(with);
  auto* result = static_cast<Value*>(to);
  for (uint64_t i = 0; i < count; ++i) result[i] = Combine(op, result[i], from[i]);
}

float FromBfloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// To the nearest, ties to even.
uint16_t ToBfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <float (*kWiden)(uint16_t), uint16_t (*kRound)(float)>
void ReduceNarrow(ReduceOp op, uint64_t count, const void* with, void* to) {
  const auto* from = static_cast<const uint16_t*>(with);
  auto* result = static_cast<uint16_t*>(to);
  for (uint64_t i = 0; i < count; ++i) {
    result[i] = kRound(Combine(op, kWiden(result[i]), kWiden(from[i])));
  }
}

}  // namespace

uint64_t SizeOf(DataType dtype) { return Known(dtype) ? kDtypes[static_cast<int>(dtype)].size : 0; }

std::string NameOf(DataType dtype) {
  const int number = static_cast<int>(dtype);
  return Known(dtype) ? kDtypes[number].name : "dtype " + std::to_string(number);
}

std::string NameOf(ReduceOp op) {
  const int number = static_cast<int>(op);
  return Known(op) ? kOps[number] : "operation " + std::to_string(number);
}

std::string CannotReduce(DataType dtype, ReduceOp op) {
  if (!Known(op)) return "op must be sum, prod, max or min, got " + NameOf(op);
  const bool integer16 = dtype == DataType::kInt16, bfloat = dtype == DataType::kBfloat16;
  if (op == ReduceOp::kProd && (integer16 || bfloat)) {
    return "op prod takes neither int16 nor bfloat16, got " + NameOf(dtype);
  }
  for (DataType taken : {DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64,
                         DataType::kFloat16, DataType::kFloat32, DataType::kBfloat16}) {
    if (dtype == taken) return "";
  }
  return "dataType must be int8, int16, int32, int64, float16, float32 or bfloat16, got " +
         NameOf(dtype);
}

void Reduce(DataType dtype, ReduceOp op, uint64_t count, const void* with, void* to) {
  switch (dtype) {
    case DataType::kInt8:
      return ReduceAs<int8_t>(op, count, with, to);
    case DataType::kInt16:
      return ReduceAs<int16_t>(op, count, with, to);
    case DataType::kInt32:
      return ReduceAs<int32_t>(op, count, with, to);
    case DataType::kInt64:
      return ReduceAs<int64_t>(op, count, with, to);
    case DataType::kFloat16:
      return ReduceNarrow<aclFloat16ToFloat, aclFloatToFloat16>(op, count, with, to);
    case DataType::kBfloat16:
      return ReduceNarrow<FromBfloat16, ToBfloat16>(op, count, with, to);
    default:
      return ReduceAs<float>(op, count, with, to);
  }
}

}  // namespace twin::hccl
