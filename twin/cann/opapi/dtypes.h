// Which dtypes an operator takes, and which one it computes in.
#pragma once

#include <cstdint>
#include <string>

#include "twin/host/objects.h"

namespace twin::cann {

// A set of dtypes, one bit each.
using Dtypes = uint64_t;

constexpr Dtypes Only(aclDataType dtype) { return Dtypes{1} << dtype; }

constexpr Dtypes kBool = Only(ACL_BOOL);
constexpr Dtypes kHalves = Only(ACL_FLOAT16) | Only(ACL_BF16);
constexpr Dtypes kFloats = kHalves | Only(ACL_FLOAT);
constexpr Dtypes kIndices = Only(ACL_INT32) | Only(ACL_INT64);
constexpr Dtypes kIntegers = kIndices | Only(ACL_INT8) | Only(ACL_UINT8) | Only(ACL_INT16);
constexpr Dtypes kNumbers = kFloats | kIntegers;
constexpr Dtypes kAll = kNumbers | kBool;

constexpr bool Has(Dtypes set, aclDataType dtype) {
  return dtype >= 0 && dtype < 64 && (set & Only(dtype)) != 0;
}

std::string NameOf(aclDataType dtype);

// The dtype in which CANN computes with two: of two floats the one that holds both, a float before
// an integer, an integer before a bool, and the wider integer.
aclDataType Promote(aclDataType a, aclDataType b);
// A scalar of the category of the tensor's dtype leaves that dtype.
aclDataType PromoteScalar(aclDataType self, aclDataType scalar, aclDataType out);
// A float becomes no integer, and nothing but a bool becomes a bool.
bool CanCast(aclDataType from, aclDataType to);

// Each throws with the name, the dtypes that are allowed and the tensor.
void RequireDtype(const char* name, const aclTensor* tensor, Dtypes allowed);
void RequireSameDtype(const char* name, const aclTensor* tensor, const char* other_name,
                      const aclTensor* other);
void RequireCast(aclDataType from, const char* name, aclDataType to);

}  // namespace twin::cann
