// Descriptions of tensors, buffers and attributes, of which calls by type are made.
#include "twin/cann/opapi/aclop.h"

using namespace twin::cann;

namespace {

constexpr aclError kInvalidParam = 100000;  // ACL_ERROR_INVALID_PARAM

template <class Value>
aclError SetAttribute(aclopAttr* attr, const char* name, Value value) {
  attr->values[name] = value;
  return ACL_SUCCESS;
}

}  // namespace

#define ACL extern "C" ACL_FUNC_VISIBILITY

ACL aclTensorDesc* aclCreateTensorDesc(aclDataType dtype, int rank, const int64_t* dims,
                                       aclFormat format) {
  if (rank < 0 || (dims == nullptr && rank > 0)) return nullptr;
  const Dims given(dims, dims + rank);
  return new aclTensorDesc{dtype, given, format, format, given, {}, false};
}
ACL void aclDestroyTensorDesc(const aclTensorDesc* desc) { delete desc; }
ACL void aclSetTensorDescName(aclTensorDesc*, const char*) {}
// How the tensor lies in memory. A call refuses what the operators cannot read.
ACL aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  desc->storage_format = format;
  return ACL_SUCCESS;
}
ACL aclError aclSetTensorShape(aclTensorDesc* desc, int rank, const int64_t* dims) {
  if (rank < 0 || (dims == nullptr && rank > 0)) return kInvalidParam;
  desc->storage_dims.assign(dims, dims + rank);
  return ACL_SUCCESS;
}
// 1: host memory that is there when the call is made.
ACL aclError aclSetTensorPlaceMent(aclTensorDesc* desc, int place) {
  desc->on_host = place != 0;
  return ACL_SUCCESS;
}
ACL aclError aclSetTensorConst(aclTensorDesc* desc, void* data, size_t bytes) {
  const auto* first = static_cast<const uint8_t*>(data);
  desc->constant.assign(first, first + bytes);
  return ACL_SUCCESS;
}
ACL size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) { return desc->dims.size(); }
ACL aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* size) {
  if (index >= desc->dims.size()) return kInvalidParam;
  *size = desc->dims[index];
  return ACL_SUCCESS;
}
ACL size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  return static_cast<size_t>(Product(desc->dims)) * aclDataTypeSize(desc->dtype);
}

ACL aclDataBuffer* aclCreateDataBuffer(void* data, size_t bytes) {
  return new aclDataBuffer{data, bytes};
}
ACL aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
  delete buffer;
  return ACL_SUCCESS;
}
ACL aclError aclUpdateDataBuffer(aclDataBuffer* buffer, void* data, size_t bytes) {
  *buffer = {data, bytes};
  return ACL_SUCCESS;
}
ACL void* aclGetDataBufferAddr(const aclDataBuffer* buffer) { return buffer->data; }

ACL aclopAttr* aclopCreateAttr() { return new aclopAttr; }
ACL void aclopDestroyAttr(const aclopAttr* attr) { delete attr; }
ACL aclError aclopSetAttrBool(aclopAttr* attr, const char* name, uint8_t value) {
  return SetAttribute(attr, name, int64_t{value});
}
ACL aclError aclopSetAttrInt(aclopAttr* attr, const char* name, int64_t value) {
  return SetAttribute(attr, name, value);
}
ACL aclError aclopSetAttrFloat(aclopAttr* attr, const char* name, float value) {
  return SetAttribute(attr, name, static_cast<double>(value));
}
ACL aclError aclopSetAttrString(aclopAttr* attr, const char* name, const char* value) {
  return SetAttribute(attr, name, std::string(value));
}
ACL aclError aclopSetAttrDataType(aclopAttr* attr, const char* name, aclDataType value) {
  return SetAttribute(attr, name, static_cast<int64_t>(value));
}
ACL aclError aclopSetAttrListInt(aclopAttr* attr, const char* name, int count,
                                 const int64_t* values) {
  return SetAttribute(attr, name, Dims(values, values + count));
}

// How CANN would compile; there is nothing to be compiled.
ACL aclError aclSetCompileopt(int, const char*) { return ACL_SUCCESS; }
ACL aclError aclopSetCompileFlag(int) { return ACL_SUCCESS; }
ACL aclError aclopSetModelDir(const char*) { return ACL_SUCCESS; }

// Where operators may take memory from; these need none.
ACL void* aclrtAllocatorCreateDesc() { return new char; }
ACL aclError aclrtAllocatorDestroyDesc(void* desc) {
  delete static_cast<char*>(desc);
  return ACL_SUCCESS;
}
ACL aclError aclrtAllocatorSetObjToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorSetAllocFuncToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorSetFreeFuncToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorSetAllocAdviseFuncToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorSetGetAddrFromBlockFuncToDesc(void*, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorRegister(aclrtStream, void*) { return ACL_SUCCESS; }
ACL aclError aclrtAllocatorUnregister(aclrtStream) { return ACL_SUCCESS; }
