// Context: one call being checked. Every require_* passes over what is unknown and names the
// argument, what was expected and what was got where it fails; nothing is formatted on the good
// path.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "infer/bound_attrs.h"
#include "infer/format.h"
#include "infer/limits.h"
#include "infer/op.h"
#include "infer/seq.h"

namespace nsa {

// The last axis of softmax_max and softmax_sum: one value, repeated.
inline constexpr int64_t kSoftmaxLanes = 8;

inline constexpr DTypeSet kListDTypes = dtype_set(DType::kInt32, DType::kInt64);
inline constexpr DTypeSet kMaskDTypes = dtype_set(DType::kBool, DType::kUint8);

// The known one of two sizes that a correct call has equal.
inline int64_t known_of(int64_t a, int64_t b) { return a >= 0 ? a : b; }

class Context {
 public:
  // Checks what the schema says of the inputs: their number, which are required, their dtypes and
  // the form of lists.
  Context(const BoundAttrs& attrs, const std::vector<TensorDesc>& inputs, Target target);

  OpId op() const { return schema_.id; }
  const char* function() const { return schema_.function; }
  const OpSchema& schema() const { return schema_; }
  Target target() const { return target_; }

  bool has(size_t input) const { return inputs_[input].present; }
  const TensorDesc& in(size_t input) const { return inputs_[input]; }
  const char* name(size_t input) const { return schema_.inputs[input].name; }
  int64_t dim(size_t input, size_t axis) const;
  DType dtype(size_t input) const { return inputs_[input].dtype; }
  // The values of a list, nullptr if it is absent or its values are unknown.
  const SeqList* values(size_t input) const { return has(input) ? inputs_[input].values : nullptr; }

  // Attributes as the operator declares them.
  template <class Declared>
  const Declared& attrs() const {
    return attrs_.as<Declared>();
  }
  // By its place in the schema.
  const Attrs::Value& attr(size_t place) const { return attrs_.value(place); }

  [[noreturn]] void fail_type(const char* argument, const std::string& expected,
                              const std::string& got) const;
  [[noreturn]] void fail_value(const char* argument, const std::string& expected,
                               const std::string& got, int code = kAclnnInvalid) const;

  void require_dtype(size_t input, DTypeSet allowed) const;
  void require_float(size_t input) const { require_dtype(input, allowed_floats(op(), target_)); }
  void require_same_dtype(size_t input, size_t as) const;
  void require_rank(size_t input, size_t rank, const char* axes) const;
  // `axes` names the dimensions for the message: "(T1, N1, 8)". An expected size of -1 accepts any
  // size.
  void require_shape(size_t input, const char* axes, const int64_t* expected, size_t rank) const;
  void require_shape(size_t input, const char* axes,
                     std::initializer_list<int64_t> expected) const {
    require_shape(input, axes, expected.begin(), expected.size());
  }
  // Like require_shape for an input that may have one of several ranks or shapes: true if it is, or
  // may be, this.
  bool may_have_shape(size_t input, std::initializer_list<int64_t> expected) const;
  void require_positive_dim(size_t input, size_t axis, const char* axis_name) const;

  // A value that is known by `name`, which may be that of an attribute.
  void require_int(const char* name, int64_t value, int64_t min, int64_t max = kLargestSize) const {
    if (value < min || value > max)
      fail_value(name, format_range(value, min, max), std::to_string(value));
  }

  void require_same_length(size_t input, size_t as) const;
  // Length of a list from its values or its shape; -1 if unknown.
  int64_t list_length(size_t input) const;
  void require_prefix_sums(size_t input, const char* total_name, int64_t total, ListEnd end) const;
  // q_offset: a list as long as `as`, each entry >= 0.
  void require_query_offset(size_t input, size_t as) const;

  // Checks a quantity against the table of limits.h on Ascend; negative `measured` of a size is an
  // unknown one.
  void limit(Quantity quantity, int64_t measured) const { limit(quantity, measured, measured); }
  // `shown` is the value to print where the quantity is a difference.
  void limit(Quantity quantity, int64_t measured, int64_t shown) const;

 private:
  void check_inputs() const;
  void check_elements(size_t input, size_t float_input) const;
  // A tensor [B].
  void check_list(size_t input) const;

  const BoundAttrs& attrs_;
  const OpSchema& schema_;
  const std::vector<TensorDesc>& inputs_;
  Target target_;
};

// An operator in the registry.
struct OpRules {
  OpSchema schema;
  std::vector<OutputDesc> (*infer)(const Context&);
};

// The rules of the context's operator: what infer() of op.h does after building one.
std::vector<OutputDesc> infer(const Context& context);

#define NSA_OP_RULES(op, function, outputs) const OpRules& function##_rules();
NSA_OPERATORS(NSA_OP_RULES)
#undef NSA_OP_RULES

}  // namespace nsa
