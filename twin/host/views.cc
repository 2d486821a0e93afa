#include <cstring>

#include "twin/host/objects.h"

namespace twin {

namespace {

struct Name {
  int value;
  const char* name;
};

template <size_t N>
std::string NameOf(const Name (&names)[N], int value, const char* kind) {
  for (const Name& entry : names) {
    if (entry.value == value) return entry.name;
  }
  return kind + std::to_string(value);
}

// Calls visit(offset in elements) for every element of the view, in order.
template <class Visit>
void ForEachElement(const aclTensor& view, Visit visit) {
  const size_t rank = view.dims.size();
  std::vector<int64_t> index(rank, 0);
  int64_t offset = view.offset;
  for (int64_t left = ElementCount(view); left > 0; --left) {
    visit(offset);
    for (size_t axis = rank; axis-- > 0;) {
      offset += view.strides[axis];
      if (++index[axis] < view.dims[axis]) break;
      offset -= view.strides[axis] * view.dims[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

std::string DTypeName(aclDataType dtype) {
  constexpr Name kNames[] = {{ACL_FLOAT, "float32"},       {ACL_FLOAT16, "float16"},
                             {ACL_INT8, "int8"},           {ACL_INT32, "int32"},
                             {ACL_UINT8, "uint8"},         {ACL_INT16, "int16"},
                             {ACL_UINT16, "uint16"},       {ACL_UINT32, "uint32"},
                             {ACL_INT64, "int64"},         {ACL_UINT64, "uint64"},
                             {ACL_DOUBLE, "float64"},      {ACL_BOOL, "bool"},
                             {ACL_COMPLEX64, "complex64"}, {ACL_COMPLEX128, "complex128"},
                             {ACL_BF16, "bfloat16"},       {ACL_DT_UNDEFINED, "undefined"},
                             {ACL_STRING, "string"}};
  return NameOf(kNames, dtype, "dtype ");
}

std::string FormatName(aclFormat format) {
  constexpr Name kNames[] = {{ACL_FORMAT_NCHW, "NCHW"},   {ACL_FORMAT_NHWC, "NHWC"},
                             {ACL_FORMAT_ND, "ND"},       {ACL_FORMAT_NC1HWC0, "NC1HWC0"},
                             {ACL_FORMAT_NCDHW, "NCDHW"}, {ACL_FORMAT_FRACTAL_NZ, "FRACTAL_NZ"},
                             {ACL_FORMAT_NCL, "NCL"}};
  return NameOf(kNames, format, "format ");
}

std::string ShapeText(const std::vector<int64_t>& dims) {
  std::string text = "(";
  for (size_t i = 0; i < dims.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  }
  return text + (dims.size() == 1 ? ",)" : ")");
}

int64_t ElementCount(const aclTensor& tensor) {
  int64_t count = 1;
  for (int64_t dim : tensor.dims) count *= dim;
  return count;
}

uint64_t ByteCount(const aclTensor& tensor) {
  return static_cast<uint64_t>(ElementCount(tensor)) * aclDataTypeSize(tensor.dtype);
}

bool IsContiguous(const aclTensor& tensor) {
  if (ElementCount(tensor) == 0) return true;
  int64_t expected = 1;
  for (size_t axis = tensor.dims.size(); axis-- > 0;) {
    // The stride of a dimension of one element is never used.
    if (tensor.dims[axis] != 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.dims[axis];
  }
  return true;
}

ElementRange RangeOf(const aclTensor& tensor) {
  if (ElementCount(tensor) == 0) return {0, 0};
  ElementRange range{tensor.offset, tensor.offset + 1};
  for (size_t axis = 0; axis < tensor.dims.size(); ++axis) {
    const int64_t reach = (tensor.dims[axis] - 1) * tensor.strides[axis];
    (reach < 0 ? range.begin : range.end) += reach;
  }
  return range;
}

void GatherView(const aclTensor& view, void* to) {
  const size_t size = aclDataTypeSize(view.dtype);
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(view.data);
  ForEachElement(view, [&](int64_t offset) {
    std::memcpy(target, source + offset * static_cast<int64_t>(size), size);
    target += size;
  });
}

void ScatterView(const void* from, const aclTensor& view) {
  const size_t size = aclDataTypeSize(view.dtype);
  const auto* source = static_cast<const uint8_t*>(from);
  auto* target = static_cast<uint8_t*>(view.data);
  ForEachElement(view, [&](int64_t offset) {
    std::memcpy(target + offset * static_cast<int64_t>(size), source, size);
    source += size;
  });
}

}  // namespace twin
