#include "infer/bound_attrs.h"

#include <cfloat>
#include <cmath>

#include "infer/format.h"

namespace nsa {

namespace {

[[noreturn]] void fail(const OpSchema& op, OpError::Kind kind, const std::string& what) {
  throw OpError(kind, std::string(op.function) + ": " + what);
}

[[noreturn]] void fail_value(const OpSchema& op, const AttrSpec& spec, const std::string& expected,
                             const std::string& got) {
  fail(op, OpError::kValue, std::string(spec.name) + " must be " + expected + ", got " + got);
}

bool has_type(const Attrs::Value& value, AttrType type) {
  const bool is_int = std::holds_alternative<int64_t>(value);
  switch (type) {
    case AttrType::kInt:
      return is_int;
    case AttrType::kFloat:
      return is_int || std::holds_alternative<double>(value);
    case AttrType::kString:
      return std::holds_alternative<std::string>(value);
  }
  return false;
}

void check_type(const OpSchema& op, const AttrSpec& spec, const Attrs::Value& value) {
  if (!has_type(value, spec.type)) {
    constexpr const char* kExpected[] = {"an int", "a float", "a str"};
    const char* expected = spec.flag ? "a bool" : kExpected[static_cast<int>(spec.type)];
    fail(op, OpError::kType,
         std::string(spec.name) + " must be " + expected + ", got " + format_value(value));
  }
  if (!spec.flag) return;
  const int64_t flag = std::get<int64_t>(value);
  if (flag != 0 && flag != 1) fail_value(op, spec, "0 or 1", std::to_string(flag));
}

void check_int(const OpSchema& op, const AttrSpec& spec, int64_t value) {
  if (value >= spec.min && (spec.min == kNoMin || value <= spec.max)) return;
  fail_value(op, spec, format_range(value, spec.min, spec.max), std::to_string(value));
}

void check_float(const OpSchema& op, const AttrSpec& spec, const Attrs::Value& of_spec) {
  const int64_t* number = std::get_if<int64_t>(&of_spec);
  const double value = number != nullptr ? static_cast<double>(*number) : std::get<double>(of_spec);
  if (spec.probability) {
    if (!(value > 0.0 && value <= 1.0)) fail_value(op, spec, "in (0, 1]", format_float(value));
    // The inverse of a smaller one overflows in float32.
    if (value < FLT_MIN) fail_value(op, spec, "a normal float32 in (0, 1]", format_float(value));
    return;
  }
  // The kernels compute in float32, where a larger number is infinite.
  if (!(std::fabs(value) <= FLT_MAX))
    fail_value(op, spec, "finite in float32", format_float(value));
}

void check_choice(const OpSchema& op, const AttrSpec& spec, const std::string& value) {
  std::string expected;
  for (size_t i = 0; i < spec.choices.count; ++i) {
    if (value == spec.choices.names[i]) return;
    expected += (i == 0 ? "one of '" : ", '") + std::string(spec.choices.names[i]) + "'";
  }
  fail_value(op, spec, expected, "'" + value + "'");
}

}  // namespace

BoundAttrs::BoundAttrs(const OpSchema& schema, const Attrs& attrs)
    : schema_(&schema), values_(schema.attrs.size()) {
  const std::vector<AttrSpec>& specs = schema.attrs;
  std::vector<bool> given(specs.size());
  for (const Attrs::Item& item : attrs.items()) {
    size_t i = 0;
    while (i < specs.size() && item.first != specs[i].name) ++i;
    if (i == specs.size()) {
      std::string known;
      for (const AttrSpec& spec : specs)
        known += std::string(known.empty() ? "" : ", ") + spec.name;
      fail(schema, OpError::kType,
           "unknown attribute " + item.first + ", expected one of " + known);
    }
    check_type(schema, specs[i], item.second);
    values_[i] = item.second;
    given[i] = true;
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (given[i]) continue;
    if (specs[i].required)
      fail(schema, OpError::kType, std::string("missing attribute ") + specs[i].name);
    values_[i] = specs[i].fallback;
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].type == AttrType::kInt) {
      check_int(schema, specs[i], std::get<int64_t>(values_[i]));
    } else if (specs[i].type == AttrType::kFloat) {
      check_float(schema, specs[i], values_[i]);
    } else {
      check_choice(schema, specs[i], std::get<std::string>(values_[i]));
    }
  }
  declared_ = schema.declared(values_);
}

}  // namespace nsa
