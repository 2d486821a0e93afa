// The handles of aclnn calls point to these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"

struct aclTensor {
  std::vector<int64_t> dims;     // of the view
  std::vector<int64_t> strides;  // in elements, one for each dimension
  int64_t offset = 0;            // in elements
  std::vector<int64_t> storage_dims;
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  void* data = nullptr;
};

struct aclScalar {
  aclDataType dtype = ACL_DT_UNDEFINED;
  std::vector<uint8_t> bytes;
};

struct aclIntArray {
  std::vector<int64_t> values;
};

struct aclFloatArray {
  std::vector<float> values;
};

struct aclBoolArray {
  std::vector<uint8_t> values;
};

struct aclTensorList {
  std::vector<const aclTensor*> tensors;
};

namespace twin {

// Objects that exist, by kind, because a handle may be anything: one that was destroyed, too.
enum class ObjectKind { kTensor, kScalar, kIntArray, kFloatArray, kBoolArray, kTensorList };
void AddObject(ObjectKind kind, const void* object);
TWIN_API bool IsObject(ObjectKind kind, const void* object);
bool RemoveObject(ObjectKind kind, const void* object);

inline ObjectKind KindOf(const aclTensor*) { return ObjectKind::kTensor; }
inline ObjectKind KindOf(const aclScalar*) { return ObjectKind::kScalar; }
inline ObjectKind KindOf(const aclIntArray*) { return ObjectKind::kIntArray; }
inline ObjectKind KindOf(const aclFloatArray*) { return ObjectKind::kFloatArray; }
inline ObjectKind KindOf(const aclBoolArray*) { return ObjectKind::kBoolArray; }
inline ObjectKind KindOf(const aclTensorList*) { return ObjectKind::kTensorList; }
template <class Object>
bool Exists(const Object* object) {
  return IsObject(KindOf(object), object);
}

inline constexpr aclnnStatus kAclnnNullptr = 161001;
inline constexpr aclnnStatus kAclnnInvalid = 161002;
inline constexpr aclnnStatus kAclnnTiling = 561002;
inline constexpr aclnnStatus kAclnnNoKernel = 561003;

std::string DTypeName(aclDataType dtype);
std::string FormatName(aclFormat format);
std::string ShapeText(const std::vector<int64_t>& dims);

// Elements of the view, and the bytes that they take without gaps.
int64_t ElementCount(const aclTensor& tensor);
uint64_t ByteCount(const aclTensor& tensor);
// No gaps and in order, so that the elements are those of memory from the offset on.
bool IsContiguous(const aclTensor& tensor);
// First element of the view and the one past the last, relative to `data`; both 0 for an empty
// view.
struct ElementRange {
  int64_t begin, end;
};
ElementRange RangeOf(const aclTensor& tensor);
// Copies between a view and contiguous memory.
void GatherView(const aclTensor& view, void* to);
void ScatterView(const void* from, const aclTensor& view);

}  // namespace twin
