// How an operator's header in this folder declares its inputs, attributes and outputs. Plain enough
// for the kernels' units, which take the attributes from there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "infer/choices.h"

namespace nsa {

// Rule of an input's dtype.
enum class Elements {
  kFloat,      // what the operator computes in: float16, bfloat16 or float32
  kSameFloat,  // of the dtype of the operator's kFloat input
  kFloat32,
  kInt32,
  kInt64,
  kUint8,
  kMask,     // bool or uint8
  kList,     // int64 or int32 [B], whose values the rules read; B is at least 1
  kRowList,  // the same, and B may be 0, because it stands elsewhere, too
  kByRules,  // it depends on the call
};

struct InputSpec {
  const char* name;
  Elements elements;
  bool optional;

  bool list() const { return elements == Elements::kList || elements == Elements::kRowList; }
};

// The inputs of an operator: a struct derived from this one has a member for each, which holds its
// position and whose initializer states the rest.
class Inputs {
 public:
  const InputSpec* begin() const { return specs_; }
  const InputSpec* end() const { return specs_ + count_; }
  size_t size() const { return count_; }
  const InputSpec& operator[](size_t input) const { return specs_[input]; }

 protected:
  constexpr size_t required(const char* name, Elements elements) {
    specs_[count_] = {name, elements, false};
    return count_++;
  }
  constexpr size_t optional(const char* name, Elements elements) {
    specs_[count_] = {name, elements, true};
    return count_++;
  }

 private:
  InputSpec specs_[24] = {};
  size_t count_ = 0;
};

// The outputs, likewise.
class Outputs {
 public:
  const char* const* begin() const { return names_; }
  const char* const* end() const { return names_ + count_; }
  size_t size() const { return count_; }
  const char* operator[](size_t output) const { return names_[output]; }

 protected:
  constexpr size_t add(const char* name) {
    names_[count_] = name;
    return count_++;
  }

 private:
  const char* names_[12] = {};
  size_t count_ = 0;
};

// The attributes of an operator are a struct of floats or doubles, int64_t, bools and choices, with
// a value where they have a default, and a function that names each:
//
//   template <class Visitor>
//   static void each(Visitor& attr) {
//     attr.required("select_block_size", &Self::select_block_size, 1);  // at least 1
//     attr.optional("causal", &Self::causal);
//     attr.optional("importance", &Self::importance);  // of an enumeration of choices.h
//   }
//
// Rules and kernels are given the struct, bound_attrs.h fills it. Floats are finite in float32.

// Leading attributes of the operators that choose blocks.
struct SelectionAttrs {
  int64_t compress_block_size = 1;  // tokens of a window
  int64_t compress_stride = 1;      // tokens between window starts
  int64_t select_block_size = 1;    // tokens of a block
  int64_t select_block_count = 1;
  int64_t init_blocks = 0, local_blocks = 0;
  Importance importance = Importance::kCann;
};

inline constexpr int64_t kNoMin = INT64_MIN;
inline constexpr int64_t kNoMax = INT64_MAX / 8;  // no size is larger, so that sums of a few fit

}  // namespace nsa
