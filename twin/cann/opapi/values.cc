#include "twin/cann/opapi/values.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "twin/cann/opapi/dtypes.h"
#include "twin/host/host_call.h"

namespace twin::cann {

namespace {

template <class T>
T Load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
void Store(double value, void* to) {
  // 2^63 is a double, the largest int64 is none, so the upper bound is the power of two above it.
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  const double cut = std::trunc(value);
  if (!(cut >= static_cast<double>(std::numeric_limits<T>::min()) && cut < end)) {
    throw std::runtime_error("the value " + std::to_string(value) +
                             " does not fit the dtype of an output");
  }
  const T stored = static_cast<T>(cut);
  std::memcpy(to, &stored, sizeof(stored));
}

uint16_t BfloatBits(float value) {
  const auto bits = Load<uint32_t>(&value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

void StoreElement(double value, aclDataType dtype, void* to) {
  const float single = static_cast<float>(value);
  uint16_t half;
  switch (dtype) {
    case ACL_FLOAT:
      std::memcpy(to, &single, sizeof(single));
      return;
    case ACL_FLOAT16:
      half = aclFloatToFloat16(single);
      std::memcpy(to, &half, sizeof(half));
      return;
    case ACL_BF16:
      half = BfloatBits(single);
      std::memcpy(to, &half, sizeof(half));
      return;
    case ACL_BOOL:
      *static_cast<uint8_t*>(to) = value != 0;
      return;
    case ACL_INT8:
      return Store<int8_t>(value, to);
    case ACL_UINT8:
      return Store<uint8_t>(value, to);
    case ACL_INT16:
      return Store<int16_t>(value, to);
    case ACL_INT32:
      return Store<int32_t>(value, to);
    default:
      return Store<int64_t>(value, to);
  }
}

}  // namespace

Values::Values(Dims shape, double value) : dims(std::move(shape)) {
  data.assign(static_cast<size_t>(Product(dims)), value);
}

int64_t Product(const Dims& dims, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < std::min(end, dims.size()); ++i) product *= dims[i];
  return product;
}

Dims StridesOf(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

size_t AxisOf(int64_t axis, size_t rank) {
  // A scalar has one axis for this purpose, as in CANN.
  const auto count = static_cast<int64_t>(std::max<size_t>(rank, 1));
  if (axis < -count || axis >= count) {
    throw std::runtime_error("there is no axis " + std::to_string(axis) + " of " +
                             std::to_string(rank));
  }
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

bool IsKnown(aclDataType dtype) { return Has(kAll, dtype); }

bool KeepsDoubles() {
  const char* const value = std::getenv("ASCENDC_TWIN_DOUBLES");
  return value != nullptr && std::string(value) == "1";
}

double RoundTo(double value, aclDataType dtype) {
  if (dtype == ACL_DOUBLE) return value;
  uint8_t element[sizeof(int64_t)];
  StoreElement(value, dtype, element);
  return ToNumber(element, dtype);
}

void RoundTo(Values* values, aclDataType dtype) {
  for (double& value : values->data) value = RoundTo(value, dtype);
}

double ToNumber(const void* element, aclDataType dtype) {
  switch (dtype) {
    case ACL_FLOAT:
      return Load<float>(element);
    case ACL_DOUBLE:
      return Load<double>(element);
    case ACL_FLOAT16:
      return aclFloat16ToFloat(Load<uint16_t>(element));
    case ACL_BF16: {
      const uint32_t bits = uint32_t{Load<uint16_t>(element)} << 16;
      return Load<float>(&bits);
    }
    case ACL_BOOL:
      return Load<uint8_t>(element) != 0;
    case ACL_INT8:
      return Load<int8_t>(element);
    case ACL_UINT8:
      return Load<uint8_t>(element);
    case ACL_INT16:
      return Load<int16_t>(element);
    case ACL_INT32:
      return Load<int32_t>(element);
    case ACL_INT64: {
      const auto value = Load<int64_t>(element);
      constexpr int64_t kExact = int64_t{1} << 53;
      if (value > kExact || value < -kExact) {
        throw std::runtime_error("the integer " + std::to_string(value) + " is beyond 2^53");
      }
      return static_cast<double>(value);
    }
    default:
      throw std::runtime_error("the dtype " + std::to_string(dtype) + " is not known");
  }
}

Values Read(const KernelArgument& argument) {
  const aclTensor& tensor = argument.tensor;
  Values values(tensor.dims);
  const size_t size = aclDataTypeSize(tensor.dtype);
  std::vector<uint8_t> bytes(size * values.data.size());
  ReadView(tensor, bytes.data());
  for (size_t i = 0; i < values.data.size(); ++i) {
    values.data[i] = ToNumber(bytes.data() + i * size, tensor.dtype);
  }
  return values;
}

void Write(const Values& values, const KernelArgument& argument) {
  const aclTensor& tensor = argument.tensor;
  const size_t size = aclDataTypeSize(tensor.dtype);
  if (Product(tensor.dims) != values.size()) {
    throw std::runtime_error(argument.shown + " has " + std::to_string(Product(tensor.dims)) +
                             " elements, the result " + std::to_string(values.size()));
  }
  std::vector<uint8_t> bytes(size * values.data.size());
  for (size_t i = 0; i < values.data.size(); ++i) {
    StoreElement(values.data[i], tensor.dtype, bytes.data() + i * size);
  }
  WriteView(bytes.data(), tensor);
}

bool CopyBits(const KernelArgument& from, const KernelArgument& to) {
  const aclTensor &source = from.tensor, &target = to.tensor;
  if (source.dtype != target.dtype || source.dims != target.dims) return false;
  std::vector<uint8_t> bytes(aclDataTypeSize(source.dtype) * Product(source.dims));
  ReadView(source, bytes.data());
  WriteView(bytes.data(), target);
  return true;
}

Dims BroadcastDims(const Dims& a, const Dims& b) {
  Dims dims(std::max(a.size(), b.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) throw std::runtime_error("shapes cannot be broadcast");
    dims[dims.size() - 1 - i] = x == 1 ? y : x;
  }
  return dims;
}

Values Broadcast(const Values& values, const Dims& dims) {
  if (values.dims == dims) return values;
  if (BroadcastDims(values.dims, dims) != dims) {
    throw std::runtime_error("a shape cannot be broadcast to that of the result");
  }
  Dims strides(dims.size(), 0);
  const Dims own = StridesOf(values.dims);
  const size_t lead = dims.size() - values.dims.size();
  for (size_t i = lead; i < dims.size(); ++i) {
    strides[i] = values.dims[i - lead] == 1 ? 0 : own[i - lead];
  }
  Values result(dims);
  const Dims steps = StridesOf(dims);
  for (int64_t at = 0; at < result.size(); ++at) {
    int64_t from = 0;
    for (size_t i = 0; i < dims.size(); ++i) from += at / steps[i] % dims[i] * strides[i];
    result.data[at] = values.data[from];
  }
  return result;
}

Values Permute(const Values& values, const std::vector<size_t>& order) {
  Dims dims;
  Dims strides;
  const Dims own = StridesOf(values.dims);
  for (size_t axis : order) {
    dims.push_back(values.dims.at(axis));
    strides.push_back(own.at(axis));
  }
  Values result(dims);
  const Dims steps = StridesOf(dims);
  for (int64_t at = 0; at < result.size(); ++at) {
    int64_t from = 0;
    for (size_t i = 0; i < dims.size(); ++i) from += at / steps[i] % dims[i] * strides[i];
    result.data[at] = values.data[from];
  }
  return result;
}

}  // namespace twin::cann
