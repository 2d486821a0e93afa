// Creating, reading and destroying the objects of aclnn calls.
#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "twin/host/log.h"
#include "twin/host/objects.h"

namespace twin {

namespace {

struct Objects {
  std::mutex mutex;
  std::set<std::pair<ObjectKind, const void*>> all;
};

Objects& TheObjects() {
  static Objects objects;
  return objects;
}

// Says what is wrong with a description, "" if nothing.
std::string DescriptionError(const int64_t* dims, uint64_t rank, aclDataType dtype,
                             const int64_t* storage_dims, uint64_t storage_rank) {
  constexpr uint64_t kMostDims = 25;
  if (rank > kMostDims || storage_rank > kMostDims) {
    return "at most 25 dimensions, got " + std::to_string(std::max(rank, storage_rank));
  }
  if ((dims == nullptr && rank > 0) || (storage_dims == nullptr && storage_rank > 0)) {
    return "dimensions are null";
  }
  for (const auto& [values, count] :
       {std::pair{dims, rank}, std::pair{storage_dims, storage_rank}}) {
    int64_t product = 1;
    for (uint64_t i = 0; i < count; ++i) {
      if (values[i] < 0)
        return "dimension " + std::to_string(i) + " is " + std::to_string(values[i]);
      if (__builtin_mul_overflow(product, values[i], &product)) return "the size overflows 64 bits";
    }
  }
  if (aclDataTypeSize(dtype) == 0) return "dtype is " + DTypeName(dtype);
  return "";
}

template <class Object>
Object* Add(Object* object) {
  AddObject(KindOf(object), object);
  return object;
}

// 0 for an object that exists, else the status, logged.
template <class Object>
aclnnStatus Check(const char* function, const Object* object) {
  if (object != nullptr && Exists(object)) return ACL_SUCCESS;
  LogError(function, object == nullptr ? "the object is null" : "the object does not exist");
  return object == nullptr ? kAclnnNullptr : kAclnnInvalid;
}

}  // namespace

void AddObject(ObjectKind kind, const void* object) {
  const std::lock_guard<std::mutex> lock(TheObjects().mutex);
  TheObjects().all.insert({kind, object});
}

bool IsObject(ObjectKind kind, const void* object) {
  const std::lock_guard<std::mutex> lock(TheObjects().mutex);
  return TheObjects().all.count({kind, object}) != 0;
}

bool RemoveObject(ObjectKind kind, const void* object) {
  const std::lock_guard<std::mutex> lock(TheObjects().mutex);
  return TheObjects().all.erase({kind, object}) != 0;
}

}  // namespace twin

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t* stride, int64_t offset, aclFormat format,
                           const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData) {
  const std::string error =
      twin::DescriptionError(viewDims, viewDimsNum, dataType, storageDims, storageDimsNum);
  if (!error.empty()) {
    twin::LogError("aclCreateTensor", error);
    return nullptr;
  }
  auto* tensor = new aclTensor;
  if (viewDimsNum > 0) tensor->dims.assign(viewDims, viewDims + viewDimsNum);
  if (storageDimsNum > 0) tensor->storage_dims.assign(storageDims, storageDims + storageDimsNum);
  tensor->strides.assign(viewDimsNum, 1);
  for (uint64_t i = 0; i < viewDimsNum; ++i) {
    const uint64_t axis = viewDimsNum - 1 - i;
    tensor->strides[axis] = stride != nullptr ? stride[axis]
                            : i == 0          ? 1
                                              : tensor->strides[axis + 1] * viewDims[axis + 1];
  }
  tensor->offset = offset;
  tensor->dtype = dataType;
  tensor->format = format;
  tensor->data = tensorData;
  return twin::Add(tensor);
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
  const size_t size = aclDataTypeSize(dataType);
  if (value == nullptr || size == 0) {
    twin::LogError("aclCreateScalar",
                   value == nullptr ? "value is null" : "dtype is " + twin::DTypeName(dataType));
    return nullptr;
  }
  const auto* bytes = static_cast<const uint8_t*>(value);
  return twin::Add(new aclScalar{dataType, {bytes, bytes + size}});
}

namespace {

template <class Array, class T>
Array* CreateArray(const char* function, const T* value, uint64_t size) {
  if (value == nullptr && size > 0) {
    twin::LogError(function, "value is null");
    return nullptr;
  }
  auto* array = new Array;
  if (size > 0) array->values.assign(value, value + size);
  return twin::Add(array);
}

// It is no error on CANN that there is none: MindSpore destroys what absent arguments are, too.
template <class Object>
aclnnStatus Destroy(const char* function, const Object* object) {
  if (object == nullptr) return ACL_SUCCESS;
  const aclnnStatus status = twin::Check(function, object);
  if (status != ACL_SUCCESS) return status;
  twin::RemoveObject(twin::KindOf(object), object);
  delete object;
  return ACL_SUCCESS;
}

template <class T>
aclnnStatus GetVector(const char* function, const aclTensor* tensor,
                      std::vector<T> aclTensor::* member, T** values, uint64_t* count) {
  if (tensor == nullptr || values == nullptr || count == nullptr) {
    twin::LogError(function, "an argument is null");
    return twin::kAclnnNullptr;
  }
  const aclnnStatus status = twin::Check(function, tensor);
  if (status != ACL_SUCCESS) return status;
  const std::vector<T>& source = tensor->*member;
  *count = source.size();
  *values = new T[source.size()];
  std::copy(source.begin(), source.end(), *values);
  return ACL_SUCCESS;
}

template <class Object, class T, class Read>
aclnnStatus GetValue(const char* function, const Object* object, T* value, Read read) {
  if (object == nullptr || value == nullptr) {
    twin::LogError(function, "an argument is null");
    return twin::kAclnnNullptr;
  }
  const aclnnStatus status = twin::Check(function, object);
  if (status != ACL_SUCCESS) return status;
  *value = static_cast<T>(read(*object));
  return ACL_SUCCESS;
}

}  // namespace

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return CreateArray<aclIntArray>("aclCreateIntArray", value, size);
}

aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
  return CreateArray<aclFloatArray>("aclCreateFloatArray", value, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return CreateArray<aclBoolArray>("aclCreateBoolArray", value, size);
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
  if (value == nullptr && size > 0) {
    twin::LogError("aclCreateTensorList", "value is null");
    return nullptr;
  }
  auto* list = new aclTensorList;
  if (size > 0) list->tensors.assign(value, value + size);
  return twin::Add(list);
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  return Destroy("aclDestroyTensor", tensor);
}
aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
  return Destroy("aclDestroyScalar", scalar);
}
aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return Destroy("aclDestroyIntArray", array);
}
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
  return Destroy("aclDestroyFloatArray", array);
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  return Destroy("aclDestroyBoolArray", array);
}
aclnnStatus aclDestroyTensorList(const aclTensorList* list) {
  if (list == nullptr) return ACL_SUCCESS;
  const aclnnStatus status = twin::Check("aclDestroyTensorList", list);
  if (status != ACL_SUCCESS) return status;
  for (const aclTensor* tensor : list->tensors) Destroy("aclDestroyTensorList", tensor);
  return Destroy("aclDestroyTensorList", list);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  return GetVector("aclGetViewShape", tensor, &aclTensor::dims, viewDims, viewDimsNum);
}
aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                               uint64_t* storageDimsNum) {
  return GetVector("aclGetStorageShape", tensor, &aclTensor::storage_dims, storageDims,
                   storageDimsNum);
}
aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                              uint64_t* stridesNum) {
  return GetVector("aclGetViewStrides", tensor, &aclTensor::strides, stridesValue, stridesNum);
}
aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  return GetValue("aclGetViewOffset", tensor, offset, [](auto& t) { return t.offset; });
}
aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  return GetValue("aclGetFormat", tensor, format, [](auto& t) { return t.format; });
}
aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  return GetValue("aclGetDataType", tensor, dataType, [](auto& t) { return t.dtype; });
}
aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return GetValue("aclGetIntArraySize", array, size, [](auto& a) { return a.values.size(); });
}
aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
  return GetValue("aclGetFloatArraySize", array, size, [](auto& a) { return a.values.size(); });
}
aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return GetValue("aclGetBoolArraySize", array, size, [](auto& a) { return a.values.size(); });
}
aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size) {
  return GetValue("aclGetTensorListSize", list, size, [](auto& l) { return l.tensors.size(); });
}
