// Device and host memory, copies between them; sizes and conversions of elements.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "graph/types.h"
#include "twin/clock/plain_numbers.h"
#include "twin/device/float16.h"
#include "twin/host/device_memory.h"
#include "twin/host/host_waits.h"
#include "twin/host/log.h"
#include "twin/host/machine.h"
#include "twin/host/product.h"
#include "twin/host/runtime_state.h"

using namespace twin;

namespace {

// Memory that aclrtMallocHost gave and aclrtFreeHost has not taken back.
struct HostMemory {
  std::mutex mutex;
  std::set<void*> addresses;
};
HostMemory& TheHostMemory() {
  static HostMemory memory;
  return memory;
}

aclError Allocate(const char* function, void** address, size_t size) {
  TWIN_RETURN_IF_ERROR(CheckReady(function));
  if (address == nullptr) return NullArgument(function, "devPtr");
  if (size == 0) {
    return Failed(function, ACL_ERROR_RT_PARAM_INVALID, "size must be greater than 0, got 0");
  }
  *address = AllocateDevice(size);
  if (*address != nullptr) return ACL_SUCCESS;
  return Failed(function, ACL_ERROR_RT_MEMORY_ALLOCATION,
                "no memory for " + std::to_string(size) + " bytes");
}

// `argument` must be device memory with so many bytes from it on.
aclError CheckDeviceBytes(const char* function, const char* argument, const void* address,
                          size_t count) {
  const int64_t bytes = DeviceBytesFrom(address);
  if (bytes < 0) {
    return Failed(function, ACL_ERROR_RT_PARAM_INVALID,
                  std::string(argument) + " is not device memory");
  }
  if (static_cast<uint64_t>(bytes) >= count) return ACL_SUCCESS;
  return Failed(function, ACL_ERROR_RT_PARAM_INVALID,
                std::string(argument) + " has " + std::to_string(bytes) +
                    " bytes left, the call needs " + std::to_string(count));
}

aclError CheckHost(const char* function, const char* argument, const void* address) {
  if (DeviceBytesFrom(address) < 0) return ACL_SUCCESS;
  return Failed(function, ACL_ERROR_RT_PARAM_INVALID,
                std::string(argument) + " is device memory, the kind of copy says host");
}

aclError CheckCopy(const char* function, const void* dst, size_t dst_max, const void* src,
                   size_t count, aclrtMemcpyKind kind) {
  TWIN_RETURN_IF_ERROR(CheckReady(function));
  if (dst == nullptr) return NullArgument(function, "dst");
  if (src == nullptr) return NullArgument(function, "src");
  if (count > dst_max) {
    return Failed(
        function, ACL_ERROR_RT_PARAM_INVALID,
        "count " + std::to_string(count) + " is greater than destMax " + std::to_string(dst_max));
  }
  const bool any = kind == ACL_MEMCPY_DEFAULT;
  const bool to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
                         (any && DeviceBytesFrom(dst) >= 0);
  const bool from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST ||
                           kind == ACL_MEMCPY_DEVICE_TO_DEVICE ||
                           (any && DeviceBytesFrom(src) >= 0);
  TWIN_RETURN_IF_ERROR(to_device ? CheckDeviceBytes(function, "dst", dst, count)
                                 : CheckHost(function, "dst", dst));
  return from_device ? CheckDeviceBytes(function, "src", src, count)
                     : CheckHost(function, "src", src);
}

void CountIfRead(const void* dst, const void* src) {
  if (DeviceBytesFrom(src) >= 0 && DeviceBytesFrom(dst) < 0) CountRead();
}

aclError CheckSet(const char* function, const void* address, size_t max_count, size_t count) {
  TWIN_RETURN_IF_ERROR(CheckReady(function));
  if (address == nullptr) return NullArgument(function, "devPtr");
  if (count > max_count) {
    return Failed(function, ACL_ERROR_RT_PARAM_INVALID,
                  "count " + std::to_string(count) + " is greater than maxCount " +
                      std::to_string(max_count));
  }
  return CheckDeviceBytes(function, "devPtr", address, count);
}

}  // namespace

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return Allocate("aclrtMalloc", devPtr, size);
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return Allocate("aclrtMallocAlign32", devPtr, size);
}

aclError aclrtFree(void* devPtr) {
  TWIN_RETURN_IF_ERROR(CheckReady("aclrtFree"));
  if (devPtr == nullptr) return NullArgument("aclrtFree", "devPtr");
  if (FreeDevice(devPtr)) return ACL_SUCCESS;
  return Failed("aclrtFree", ACL_ERROR_RT_PARAM_INVALID,
                "devPtr is not the beginning of device memory that aclrtMalloc gave, or has been "
                "freed already");
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  TWIN_RETURN_IF_ERROR(CheckReady("aclrtMallocHost"));
  if (hostPtr == nullptr) return NullArgument("aclrtMallocHost", "hostPtr");
  if (size == 0) {
    return Failed("aclrtMallocHost", ACL_ERROR_RT_PARAM_INVALID,
                  "size must be greater than 0, got 0");
  }
  *hostPtr = std::malloc(size);
  if (*hostPtr == nullptr) return ACL_ERROR_RT_MEMORY_ALLOCATION;
  HostMemory& memory = TheHostMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  memory.addresses.insert(*hostPtr);
  return ACL_SUCCESS;
}

aclError aclrtFreeHost(void* hostPtr) {
  if (hostPtr == nullptr) return NullArgument("aclrtFreeHost", "hostPtr");
  HostMemory& memory = TheHostMemory();
  {
    const std::lock_guard<std::mutex> lock(memory.mutex);
    if (memory.addresses.erase(hostPtr) == 0) {
      return Failed("aclrtFreeHost", ACL_ERROR_RT_PARAM_INVALID,
                    "hostPtr is not an address that aclrtMallocHost gave, or has been freed "
                    "already");
    }
  }
  std::free(hostPtr);
  return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count,
                     aclrtMemcpyKind kind) {
  TWIN_RETURN_IF_ERROR(CheckCopy("aclrtMemcpy", dst, destMax, src, count, kind));
  CountIfRead(dst, src);
  std::memmove(dst, src, count);
  return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream) {
  TWIN_RETURN_IF_ERROR(CheckCopy("aclrtMemcpyAsync", dst, destMax, src, count, kind));
  CountIfRead(dst, src);
  return Enqueue("aclrtMemcpyAsync", stream, [=] {
    // Checked again: the memory may be gone by now.
    TWIN_RETURN_IF_ERROR(CheckCopy("aclrtMemcpyAsync", dst, destMax, src, count, kind));
    std::memmove(dst, src, count);
    return ACL_SUCCESS;
  });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  TWIN_RETURN_IF_ERROR(CheckSet("aclrtMemset", devPtr, maxCount, count));
  std::memset(devPtr, value, count);
  return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream) {
  TWIN_RETURN_IF_ERROR(CheckSet("aclrtMemsetAsync", devPtr, maxCount, count));
  return Enqueue("aclrtMemsetAsync", stream,
                 [=] { return aclrtMemset(devPtr, maxCount, value, count); });
}

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free, size_t* total) {
  TWIN_RETURN_IF_ERROR(CheckReady("aclrtGetMemInfo"));
  if (free == nullptr || total == nullptr) return NullArgument("aclrtGetMemInfo", "a size");
  *total = kHbmBytes;
  const uint64_t used = DeviceMemoryInUse().bytes;
  *free = used > *total ? 0 : *total - used;
  return ACL_SUCCESS;
}

size_t aclDataTypeSize(aclDataType dataType) {
  const int size = ge::GetSizeByDataType(static_cast<ge::DataType>(dataType));
  return size < 0 ? 0 : static_cast<size_t>(size);
}

float aclFloat16ToFloat(aclFloat16 value) { return HalfBitsToFloat(value); }

aclFloat16 aclFloatToFloat16(float value) { return FloatToHalfBits(value); }

const char* aclrtGetSocName() {
  try {
    return CurrentProduct().name;
  } catch (const std::exception& error) {
    LogError("aclrtGetSocName", error.what());
    return nullptr;
  }
}

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line,
               const char* fmt, ...) {
  const twin::PlainNumbers plain;
  char text[1024];
  va_list list;
  va_start(list, fmt);
  std::vsnprintf(text, sizeof(text), fmt, list);
  va_end(list);
  LogText(static_cast<LogLevel>(logLevel), std::string(file) + ":" + std::to_string(line),
          std::string(func) + ": " + text);
}
