#include "twin/cann/opapi/dtypes.h"

#include <stdexcept>

#include "twin/host/host_call.h"

namespace twin::cann {

namespace {

struct Name {
  aclDataType dtype;
  const char* text;
};

constexpr Name kNames[] = {
    {ACL_FLOAT16, "float16"}, {ACL_BF16, "bfloat16"}, {ACL_FLOAT, "float32"},
    {ACL_DOUBLE, "float64"},  {ACL_BOOL, "bool"},     {ACL_INT8, "int8"},
    {ACL_UINT8, "uint8"},     {ACL_INT16, "int16"},   {ACL_INT32, "int32"},
    {ACL_INT64, "int64"},
};

bool Floating(aclDataType dtype) { return Has(kFloats, dtype) || dtype == ACL_DOUBLE; }

// Bytes of an integer; -1 of what is none.
int Width(aclDataType dtype) {
  return Has(kIntegers, dtype) ? static_cast<int>(aclDataTypeSize(dtype)) : -1;
}

}  // namespace

std::string NameOf(aclDataType dtype) {
  for (const Name& name : kNames) {
    if (name.dtype == dtype) return name.text;
  }
  return "dtype " + std::to_string(dtype);
}

aclDataType Promote(aclDataType a, aclDataType b) {
  if (a == b) return a;
  if (a == ACL_DOUBLE || b == ACL_DOUBLE) return ACL_DOUBLE;
  // Neither of the two 16-bit floats holds the other.
  if (Floating(a) && Floating(b)) return ACL_FLOAT;
  if (Floating(a)) return a;
  if (Floating(b)) return b;
  if (a == ACL_BOOL) return b;
  if (b == ACL_BOOL) return a;
  if (Width(a) != Width(b)) return Width(a) > Width(b) ? a : b;
  return ACL_INT16;  // int8 and uint8
}

aclDataType PromoteScalar(aclDataType self, aclDataType scalar, aclDataType out) {
  if (Floating(self)) return self;
  if (scalar == ACL_DOUBLE && out == ACL_FLOAT) return ACL_FLOAT;
  return Floating(scalar) || self == ACL_BOOL ? Promote(self, scalar) : self;
}

bool CanCast(aclDataType from, aclDataType to) {
  if (Floating(from) && Has(kIntegers, to)) return false;
  return from == ACL_BOOL || to != ACL_BOOL;
}

void RequireDtype(const char* name, const aclTensor* tensor, Dtypes allowed) {
  if (Has(allowed, tensor->dtype)) return;
  std::string texts;
  for (const Name& each : kNames) {
    if (Has(allowed, each.dtype)) texts += (texts.empty() ? "" : ", ") + std::string(each.text);
  }
  throw std::runtime_error(std::string(name) + " must be of dtype " + texts + ", got " +
                           DescribeTensor(*tensor));
}

void RequireSameDtype(const char* name, const aclTensor* tensor, const char* other_name,
                      const aclTensor* other) {
  if (tensor->dtype == other->dtype) return;
  throw std::runtime_error(std::string(name) + " must have the dtype of " + other_name + ", " +
                           NameOf(other->dtype) + ", got " + DescribeTensor(*tensor));
}

void RequireCast(aclDataType from, const char* name, aclDataType to) {
  if (CanCast(from, to)) return;
  throw std::runtime_error(std::string(name) + " is of dtype " + NameOf(to) +
                           ", to which the result's, " + NameOf(from) + ", is not cast");
}

}  // namespace twin::cann
