// Attribute values of a call, by their index in the operator's definition.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <string>
#include <vector>

#include "exe_graph/runtime/continuous_vector.h"

namespace gert {

class RuntimeAttrs {
 public:
  RuntimeAttrs() = default;
  RuntimeAttrs(const RuntimeAttrs&) = delete;
  RuntimeAttrs& operator=(const RuntimeAttrs&) = delete;

  // Null past the last attribute. The type is the one that the definition gives the attribute:
  // int64_t, float, bool, char, TypedContinuousVector<int64_t, float or bool>.
  template <typename T>
  const T* GetAttrPointer(size_t index) const {
    return index < values_.size() ? reinterpret_cast<const T*>(values_[index].data()) : nullptr;
  }
  const int64_t* GetInt(size_t index) const { return GetAttrPointer<int64_t>(index); }
  const float* GetFloat(size_t index) const { return GetAttrPointer<float>(index); }
  const bool* GetBool(size_t index) const { return GetAttrPointer<bool>(index); }
  const char* GetStr(size_t index) const { return GetAttrPointer<char>(index); }
  const TypedContinuousVector<int64_t>* GetListInt(size_t index) const {
    return GetAttrPointer<TypedContinuousVector<int64_t>>(index);
  }
  const TypedContinuousVector<float>* GetListFloat(size_t index) const {
    return GetAttrPointer<TypedContinuousVector<float>>(index);
  }
  size_t GetAttrNum() const { return values_.size(); }

  // The twin's own: the bytes of the next attribute.
  void Append(const void* bytes, size_t size) {
    // Whole words, so that every value is aligned.
    values_.emplace_back((size + sizeof(uint64_t) - 1) / sizeof(uint64_t));
    if (size > 0) __builtin_memcpy(values_.back().data(), bytes, size);
  }

 private:
  std::vector<std::vector<uint64_t>> values_;
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
