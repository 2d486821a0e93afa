#include "infer/op.h"

namespace nsa {

namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t size;
};

// The dtypes that calls really use come first: lookups by name are linear.
constexpr DTypeInfo kDTypes[] = {
    {DType::kFloat32, "float32", 4},
    {DType::kFloat16, "float16", 2},
    {DType::kBFloat16, "bfloat16", 2},
    {DType::kInt64, "int64", 8},
    {DType::kInt32, "int32", 4},
    {DType::kUint8, "uint8", 1},
    {DType::kBool, "bool", 1},
    {DType::kFloat64, "float64", 8},
    {DType::kInt8, "int8", 1},
    {DType::kInt16, "int16", 2},
    {DType::kUint16, "uint16", 2},
    {DType::kUint32, "uint32", 4},
    {DType::kUint64, "uint64", 8},
    {DType::kFloat8E4M3FN, "float8_e4m3fn", 1},
    {DType::kFloat8E5M2, "float8_e5m2", 1},
    {DType::kHiFloat8, "hifloat8", 1},
    {DType::kComplex64, "complex64", 8},
    {DType::kComplex128, "complex128", 16},
    {DType::kUnknown, "unknown", 0},
};

[[noreturn]] void wrong_attr_type(std::string_view name, const char* expected) {
  throw OpError(OpError::kType, std::string(name) + " must be " + expected);
}

}  // namespace

const char* dtype_name(DType dtype) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == dtype) return info.name.data();
  }
  return "an unsupported dtype";
}

bool dtype_from_name(std::string_view name, DType* dtype) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.name == name) {
      *dtype = info.dtype;
      return true;
    }
  }
  return false;
}

int64_t dtype_size(DType dtype) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == dtype) return info.size;
  }
  return 0;
}

Attrs& Attrs::set(std::string_view name, Value value) {
  for (Item& item : items_) {
    if (item.first == name) {
      item.second = std::move(value);
      return *this;
    }
  }
  items_.emplace_back(std::string(name), std::move(value));
  return *this;
}

const Attrs::Value* Attrs::find(std::string_view name) const {
  for (const Item& item : items_) {
    if (item.first == name) return &item.second;
  }
  return nullptr;
}

int64_t Attrs::get_int(std::string_view name, int64_t fallback) const {
  const Value* value = find(name);
  if (value == nullptr) return fallback;
  if (const int64_t* number = std::get_if<int64_t>(value)) return *number;
  wrong_attr_type(name, "an int");
}

double Attrs::get_float(std::string_view name, double fallback) const {
  const Value* value = find(name);
  if (value == nullptr) return fallback;
  if (const double* number = std::get_if<double>(value)) return *number;
  if (const int64_t* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  wrong_attr_type(name, "a float");
}

std::string Attrs::get_str(std::string_view name, const std::string& fallback) const {
  const Value* value = find(name);
  if (value == nullptr) return fallback;
  if (const std::string* text = std::get_if<std::string>(value)) return *text;
  wrong_attr_type(name, "a str");
}

}  // namespace nsa
