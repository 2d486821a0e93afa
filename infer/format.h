// Shapes, dtypes and values as messages show them, and sizes that may be unknown.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "infer/limits.h"
#include "infer/op.h"

namespace nsa {

inline constexpr int64_t kUnknownDim = -1;

std::string format_shape(
    const std::vector<int64_t>& shape);   // "(2, 3)", "(5,)", "?" for an unknown dimension
std::string format_dtypes(DTypeSet set);  // "float16, bfloat16 or float32"
std::string format_float(double value);
std::string format_value(const Attrs::Value& value);  // with its type: "3 (int)"
// The expectation for an int out of a range: ">= 1", or "at most 8", or "in [1, 8]".
std::string format_range(int64_t value, int64_t min, int64_t max);

// a * b * ..., -1 if any is unknown; saturates instead of overflowing.
int64_t product(std::initializer_list<int64_t> factors);
// Elements of a shape, -1 if unknown.
int64_t numel(const TensorDesc& desc);

}  // namespace nsa
