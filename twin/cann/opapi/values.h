// Elements of tensors as numbers, for the loops of CANN's own operators.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "twin/host/executor.h"

namespace twin::cann {

using Dims = std::vector<int64_t>;

// The elements of a tensor in the order of its dimensions. A double holds every value of the dtypes
// that are known, int64 up to 2^53. Loops round each step with InSingle, as a vector unit does.
struct Values {
  Dims dims;
  std::vector<double> data;

  Values() = default;
  explicit Values(Dims shape, double value = 0);
  int64_t size() const { return static_cast<int64_t>(data.size()); }
};

int64_t Product(const Dims& dims, size_t begin = 0, size_t end = SIZE_MAX);
// Strides of a contiguous tensor, in elements.
Dims StridesOf(const Dims& dims);
// `axis` counted from the end where it is negative; throws where there is no such axis.
size_t AxisOf(int64_t axis, size_t rank);

bool IsKnown(aclDataType dtype);
double ToNumber(const void* element, aclDataType dtype);

// ASCENDC_TWIN_DOUBLES=1 keeps doubles between the operands and the result, to tell the rounding
// of a device from another error.
bool KeepsDoubles();
// A step of a computation, which a device does in float32. One operation on two floats in double,
// rounded so, is that operation in float.
inline double InSingle(double value) {
  static const bool keeps = KeepsDoubles();
  return keeps ? value : static_cast<double>(static_cast<float>(value));
}
// A value as a tensor of the dtype holds it; throws where an integer does not fit.
double RoundTo(double value, aclDataType dtype);
void RoundTo(Values* values, aclDataType dtype);

Values Read(const KernelArgument& argument);
// Throws where a value does not fit the dtype.
void Write(const Values& values, const KernelArgument& argument);

// The elements as they are, whatever an int64 is; false where dtypes or dimensions differ.
bool CopyBits(const KernelArgument& from, const KernelArgument& to);

// The values repeated to a shape that theirs can be broadcast to.
Values Broadcast(const Values& values, const Dims& dims);
// The shape of two that are broadcast to one another; throws where they cannot be.
Dims BroadcastDims(const Dims& a, const Dims& b);
// With the dimensions in another order: dimension i of the result is dimension order[i].
Values Permute(const Values& values, const std::vector<size_t>& order);

}  // namespace twin::cann
