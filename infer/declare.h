// How an operator's header in this folder declares its inputs, attributes and outputs. Plain enough
// for the kernels' units, which take the attributes from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "infer/shape.h"

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
  ShapeForms shapes;

  bool list() const { return elements == Elements::kList || elements == Elements::kRowList; }
};

// The inputs of an operator: a struct derived from this one has a member for each, which holds its
// position and whose initializer states the rest. Shapes are written as shape.h says; without one
// the rules know it.
class Inputs {
 public:
  const InputSpec* begin() const { return specs_; }
  const InputSpec* end() const { return specs_ + count_; }
  size_t size() const { return count_; }
  const InputSpec& operator[](size_t input) const { return specs_[input]; }
  constexpr const ShapeTable& shapes() const { return shapes_; }

 protected:
  constexpr size_t required(const char* name, Elements elements, std::string_view shape = {}) {
    specs_[count_] = {name, elements, false, shapes_.parse(shape)};
    return count_++;
  }
  constexpr size_t optional(const char* name, Elements elements, std::string_view shape = {}) {
    specs_[count_] = {name, elements, true, shapes_.parse(shape)};
    return count_++;
  }

 private:
  InputSpec specs_[24] = {};
  size_t count_ = 0;
  ShapeTable shapes_;
};

// The dtype of an output.
enum class Result {
  kByRules,
  kFloat,  // that of the kFloat input
  kFloat32,
  kInt32,
  kUint8,
};

struct OutputSpec {
  const char* name;
  Result dtype;
  ShapeForms shapes;
  const char* like;  // the input whose shape it has, nullptr if none
};

// The outputs, likewise. The names in their shapes are those of the inputs, or of attributes; an
// unknown one is left to the rules.
class Outputs {
 public:
  const OutputSpec* begin() const { return specs_; }
  const OutputSpec* end() const { return specs_ + count_; }
  size_t size() const { return count_; }
  const char* operator[](size_t output) const { return specs_[output].name; }
  constexpr const ShapeTable& shapes() const { return shapes_; }

 protected:
  constexpr size_t add(const char* name, Result dtype = Result::kByRules,
                       std::string_view shape = {}) {
    specs_[count_] = {name, dtype, shapes_.parse(shape), nullptr};
    return count_++;
  }
  // An output has the shape of this input, or one element where the input is absent.
  constexpr size_t like(const char* name, Result dtype, const char* input) {
    specs_[count_] = {name, dtype, {}, input};
    return count_++;
  }

 private:
  OutputSpec specs_[12] = {};
  size_t count_ = 0;
  ShapeTable shapes_;
};

// Some attributes are one of a few words: an enumeration, whose values are places in the list of
// names.
struct Choices {
  const char* const* names = nullptr;
  size_t count = 0;
};

// How the probabilities of compressed tokens become scores of blocks: as in CANN, or in the paper.
enum class Importance { kCann, kOverlap };
inline constexpr const char* kImportanceNames[] = {"cann", "overlap"};
constexpr Choices choices_of(Importance) { return {kImportanceNames, 2}; }

// Layouts of dense attention.
enum class InputLayout : int { kBSH, kSBH, kBSND, kBNSD, kTND };
inline constexpr const char* kInputLayoutNames[] = {"BSH", "SBH", "BSND", "BNSD", "TND"};
constexpr Choices choices_of(InputLayout) { return {kInputLayoutNames, 5}; }

// Layouts of queries of operators that read a cache.
enum class RowLayout { kTND, kBSND };
inline constexpr const char* kRowLayoutNames[] = {"TND", "BSND"};
constexpr Choices choices_of(RowLayout) { return {kRowLayoutNames, 2}; }

// Layouts of keys and values in a cache: pages of tokens of heads, or of heads of tokens.
enum class CacheLayout { kBNSD, kBSND };
inline constexpr const char* kCacheLayoutNames[] = {"BNSD", "BSND"};
constexpr Choices choices_of(CacheLayout) { return {kCacheLayoutNames, 2}; }

// Layouts of the operators that select tokens: batches, packed, and keys in pages.
enum class TokenLayout { kBSND, kTND };
inline constexpr const char* kTokenLayoutNames[] = {"BSND", "TND"};
constexpr Choices choices_of(TokenLayout) { return {kTokenLayoutNames, 2}; }
enum class KeyLayout { kBSND, kTND, kPaged };
inline constexpr const char* kKeyLayoutNames[] = {"BSND", "TND", "PA_BSND"};
constexpr Choices choices_of(KeyLayout) { return {kKeyLayoutNames, 3}; }

constexpr KeyLayout as_key_layout(TokenLayout layout) {
  return layout == TokenLayout::kTND ? KeyLayout::kTND : KeyLayout::kBSND;
}

// How a block of keys is scored by an indexer.
enum class BlockScore { kMax, kMean, kReluWeighted, kSoftmaxMax };
inline constexpr const char* kBlockScoreNames[] = {"max", "mean", "relu_weighted", "softmax_max"};
constexpr Choices choices_of(BlockScore) { return {kBlockScoreNames, 4}; }

// Dtypes of results, those that numbers are rounded to, and those of the operands of a product.
enum class FloatName { kFloat16, kBFloat16, kFloat32 };
inline constexpr const char* kFloatNames[] = {"float16", "bfloat16", "float32"};
constexpr Choices choices_of(FloatName) { return {kFloatNames, 3}; }
enum class HalfName { kFloat16, kBFloat16 };
constexpr Choices choices_of(HalfName) { return {kFloatNames, 2}; }
enum class OperandName { kBFloat16, kFloat32 };
constexpr Choices choices_of(OperandName) { return {kFloatNames + 1, 2}; }

template <class Choice>
constexpr const char* name_of(Choice choice) {
  return choices_of(choice).names[static_cast<int>(choice)];
}

// The attributes of an operator are a struct of floats or doubles, int64_t, bools and choices, with
// a value where they have a default, and a function that names each:
//
//   template <class Visitor>
//   static void each(Visitor& attr) {
//     attr.required("select_block_size", &Self::select_block_size, 1);  // at least 1
//     attr.optional("causal", &Self::causal);
//     attr.optional("importance", &Self::importance);  // of an enumeration above
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
