#include "infer/check.h"

namespace nsa {

Context::Context(const BoundAttrs& attrs, const std::vector<TensorDesc>& inputs, Target target)
    : attrs_(attrs), schema_(attrs.schema()), inputs_(inputs), target_(target) {
  if (inputs.size() != schema_.inputs.size()) {
    throw OpError(OpError::kType, std::string(function()) + ": expected " +
                                      std::to_string(schema_.inputs.size()) + " inputs, got " +
                                      std::to_string(inputs.size()));
  }
  check_inputs();
}

void Context::check_inputs() const {
  const Inputs& specs = schema_.inputs;
  const size_t float_input = schema_.sizes.float_input;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!has(i) && !specs[i].optional) {
      throw OpError(OpError::kType,
                    std::string(function()) + ": " + name(i) + " must be a Tensor, got None",
                    kAclnnNullptr);
    }
  }
  // Before the inputs that have to be like it.
  check_elements(float_input, float_input);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (has(i)) check_elements(i, float_input);
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (has(i) && specs[i].list()) check_list(i);
  }
}

void Context::check_elements(size_t input, size_t float_input) const {
  switch (schema_.inputs[input].elements) {
    case Elements::kFloat:
      return require_float(input);
    case Elements::kSameFloat:
      require_float(input);
      return require_same_dtype(input, float_input);
    case Elements::kFloat32:
      return require_dtype(input, dtype_set(DType::kFloat32));
    case Elements::kInt32:
      return require_dtype(input, dtype_set(DType::kInt32));
    case Elements::kInt64:
      return require_dtype(input, dtype_set(DType::kInt64));
    case Elements::kUint8:
      return require_dtype(input, dtype_set(DType::kUint8));
    case Elements::kMask:
      return require_dtype(input, kMaskDTypes);
    case Elements::kList:
    case Elements::kRowList:
      return require_dtype(input, kListDTypes);
    case Elements::kByRules:
      return;
  }
}

int64_t Context::dim(size_t input, size_t axis) const {
  const TensorDesc& desc = inputs_[input];
  if (!has(input) || !desc.known_rank || axis >= desc.shape.size()) return kUnknownDim;
  return desc.shape[axis] < 0 ? kUnknownDim : desc.shape[axis];
}

void Context::fail_type(const char* argument, const std::string& expected,
                        const std::string& got) const {
  throw OpError(OpError::kType, std::string(function()) + ": " + argument + " must be " + expected +
                                    ", got " + got);
}

void Context::fail_value(const char* argument, const std::string& expected, const std::string& got,
                         int code) const {
  throw OpError(OpError::kValue,
                std::string(function()) + ": " + argument + " must be " + expected + ", got " + got,
                code);
}

void Context::require_dtype(size_t input, DTypeSet allowed) const {
  const DType dtype = inputs_[input].dtype;
  if (dtype == DType::kUnknown || ((allowed >> static_cast<int>(dtype)) & 1)) return;
  const bool fp8 =
      dtype == DType::kFloat8E4M3FN || dtype == DType::kFloat8E5M2 || dtype == DType::kHiFloat8;
  fail_type(name(input),
            "of dtype " + format_dtypes(allowed) + (target_ == Target::kAscend ? " on Ascend" : ""),
            std::string(dtype_name(dtype)) + (fp8 ? " (8-bit floats need a later chip)" : ""));
}

void Context::require_same_dtype(size_t input, size_t as) const {
  const DType got = inputs_[input].dtype;
  const DType expected = inputs_[as].dtype;
  if (got == DType::kUnknown || expected == DType::kUnknown || got == expected) return;
  fail_type(name(input), std::string("of the dtype of ") + name(as) + ", " + dtype_name(expected),
            dtype_name(got));
}

void Context::require_rank(size_t input, size_t rank, const char* axes) const {
  const TensorDesc& desc = inputs_[input];
  if (!desc.known_rank || desc.shape.size() == rank) return;
  fail_value(
      name(input), std::string("of shape ") + axes,
      "rank " + std::to_string(desc.shape.size()) + " with shape " + format_shape(desc.shape));
}

void Context::require_shape(size_t input, const char* axes, const int64_t* expected,
                            size_t rank) const {
  require_rank(input, rank, axes);
  const TensorDesc& desc = inputs_[input];
  if (!desc.known_rank) return;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (expected[axis] >= 0 && desc.shape[axis] >= 0 && desc.shape[axis] != expected[axis]) {
      fail_value(
          name(input),
          std::string("of shape ") + axes + " = " + format_shape({expected, expected + rank}),
          format_shape(desc.shape));
    }
  }
}

bool Context::may_have_shape(size_t input, std::initializer_list<int64_t> expected) const {
  const TensorDesc& desc = inputs_[input];
  if (!desc.known_rank) return true;
  if (desc.shape.size() != expected.size()) return false;
  size_t axis = 0;
  for (int64_t size : expected) {
    if (size >= 0 && desc.shape[axis] >= 0 && desc.shape[axis] != size) return false;
    ++axis;
  }
  return true;
}

void Context::require_positive_dim(size_t input, size_t axis, const char* axis_name) const {
  if (dim(input, axis) != 0) return;
  fail_value(name(input), std::string("of a shape with ") + axis_name + " >= 1",
             format_shape(inputs_[input].shape));
}

void Context::check_list(size_t input) const {
  require_rank(input, 1, "(B,)");
  if (list_length(input) == 0 && schema_.inputs[input].elements == Elements::kList)
    fail_value(name(input), "a list with at least one entry", "an empty list");
  const TensorDesc& desc = inputs_[input];
  if (desc.values != nullptr && dim(input, 0) >= 0 &&
      dim(input, 0) != static_cast<int64_t>(desc.values->size())) {
    fail_value(name(input),
               "of shape (" + std::to_string(desc.values->size()) + ",) as its values are",
               format_shape(desc.shape));
  }
}

int64_t Context::list_length(size_t input) const {
  if (!has(input)) return kUnknownDim;
  const TensorDesc& desc = inputs_[input];
  if (desc.values != nullptr) return static_cast<int64_t>(desc.values->size());
  return desc.shape.size() == 1 ? dim(input, 0) : kUnknownDim;
}

void Context::require_same_length(size_t input, size_t as) const {
  const int64_t got = list_length(input);
  const int64_t expected = list_length(as);
  if (got < 0 || expected < 0 || got == expected) return;
  fail_value(name(input),
             std::string("as long as ") + name(as) + " (" + std::to_string(expected) + ")",
             "length " + std::to_string(got));
}

void Context::require_prefix_sums(size_t input, const char* total_name, int64_t total,
                                  ListEnd end) const {
  const SeqList* list = values(input);
  if (list == nullptr) return;
  check_prefix_sums(*list, {function(), name(input), total_name, total, end});
}

void Context::require_query_offset(size_t input, size_t as) const {
  if (!has(input)) return;
  require_same_length(input, as);
  const SeqList* offsets = values(input);
  if (offsets == nullptr) return;
  for (size_t b = 0; b < offsets->size(); ++b) {
    const int64_t offset = (*offsets)[b];
    if (offset < 0 || offset > kLargestSize) {
      fail_value(name(input), offset < 0 ? ">= 0" : "at most " + std::to_string(kLargestSize),
                 std::to_string(offset) + " at index " + std::to_string(b));
    }
  }
}

void Context::limit(Quantity quantity, int64_t measured, int64_t shown) const {
  if (target_ != Target::kAscend || measured < 0) return;
  for (const AscendLimit& row : kAscendLimits) {
    if (row.quantity != quantity || ((row.ops >> static_cast<int>(op())) & 1) == 0) continue;
    if (measured >= row.min && measured <= row.max && measured % row.multiple == 0) continue;
    std::string expected;
    if (row.expected != nullptr) {
      expected = row.expected;
    } else {
      if (measured < row.min) {
        expected = "at least " + std::to_string(row.min);
      } else if (measured > row.max) {
        expected = "at most " + std::to_string(row.max);
      } else {
        expected = "a multiple of " + std::to_string(row.multiple);
      }
    }
    fail_value(row.argument, expected + " on Ascend", std::to_string(shown), kAclnnLimit);
  }
}

}  // namespace nsa
