// Reserved addresses, and memory that is mapped to them.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "twin/host/device_memory.h"
#include "twin/host/runtime_state.h"

using namespace twin;

namespace {

constexpr int kGarbage = 0xFF;

// A part of the file that stands for the device's memory.
struct Physical {
  off_t offset;
  size_t bytes;
  bool fresh = true;  // nobody has seen its content
  bool mapped = false;
};

struct VirtualMemory {
  std::mutex mutex;
  int file = -1;
  off_t end = 0;
  std::map<void*, size_t> reserved;
  std::map<void*, std::unique_ptr<Physical>> physical;
  std::map<void*, Physical*> mappings;
};

VirtualMemory& TheVirtualMemory() {
  static VirtualMemory memory;
  return memory;
}

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// The reservation that holds all of the range; null if there is none.
bool IsReserved(const VirtualMemory& memory, const void* address, size_t bytes) {
  auto after = memory.reserved.upper_bound(const_cast<void*>(address));
  if (after == memory.reserved.begin()) return false;
  const auto& [base, size] = *--after;
  const auto offset =
      static_cast<size_t>(static_cast<const uint8_t*>(address) - static_cast<uint8_t*>(base));
  return offset <= size && bytes <= size - offset;
}

// Addresses without memory again.
bool Withdraw(void* address, size_t bytes) {
  return mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
              -1, 0) == address;
}

}  // namespace

aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr,
                                uint64_t) {
  constexpr const char* kName = "aclrtReserveMemAddress";
  TWIN_RETURN_IF_ERROR(CheckReady(kName));
  if (virPtr == nullptr) return NullArgument(kName, "virPtr");
  if (size == 0 || alignment != 0 || expectPtr != nullptr) {
    return Failed(kName, ACL_ERROR_RT_PARAM_INVALID,
                  "size must be greater than 0, alignment 0 and expectPtr null");
  }
  // Physical memory comes in pieces of 2 MB, and a reservation begins with one.
  constexpr size_t kPiece = size_t{2} << 20;
  const size_t bytes = size + kPiece;
  void* address =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    return Failed(kName, ACL_ERROR_RT_MEMORY_ALLOCATION,
                  "no addresses for " + std::to_string(size) + " bytes");
  }
  auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t aligned = (begin + kPiece - 1) / kPiece * kPiece;
  if (aligned > begin) munmap(address, aligned - begin);
  const size_t page = PageBytes();
  const uintptr_t end = aligned + (size + page - 1) / page * page;
  if (begin + bytes > end) munmap(reinterpret_cast<void*>(end), begin + bytes - end);
  VirtualMemory& memory = TheVirtualMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  *virPtr = reinterpret_cast<void*>(aligned);
  memory.reserved[*virPtr] = end - aligned;
  return ACL_SUCCESS;
}

aclError aclrtReleaseMemAddress(void* virPtr) {
  constexpr const char* kName = "aclrtReleaseMemAddress";
  VirtualMemory& memory = TheVirtualMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.reserved.find(virPtr);
  if (found == memory.reserved.end()) {
    return Failed(kName, ACL_ERROR_RT_PARAM_INVALID, "virPtr has not been reserved");
  }
  const auto mapped = memory.mappings.lower_bound(virPtr);
  if (mapped != memory.mappings.end() &&
      mapped->first < static_cast<uint8_t*>(virPtr) + found->second) {
    return Failed(kName, ACL_ERROR_RT_PARAM_INVALID, "memory is mapped there");
  }
  munmap(virPtr, found->second);
  memory.reserved.erase(found);
  return ACL_SUCCESS;
}

aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size,
                             const aclrtPhysicalMemProp* prop, uint64_t flags) {
  constexpr const char* kName = "aclrtMallocPhysical";
  TWIN_RETURN_IF_ERROR(CheckReady(kName));
  if (handle == nullptr || prop == nullptr) return NullArgument(kName, "handle or prop");
  int32_t device = 0;
  TWIN_RETURN_IF_ERROR(aclrtGetDevice(&device));
  if (size == 0 || size % PageBytes() != 0 || flags != 0 ||
      prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE ||
      static_cast<int64_t>(prop->location.id) != device) {
    return Failed(kName, ACL_ERROR_RT_PARAM_INVALID,
                  "it must be whole pages of device " + std::to_string(device) +
                      " without flags, got " + std::to_string(size) + " bytes");
  }
  VirtualMemory& memory = TheVirtualMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  if (memory.file < 0) memory.file = memfd_create("ascendc_twin", MFD_CLOEXEC);
  if (memory.file < 0 || ftruncate(memory.file, memory.end + static_cast<off_t>(size)) != 0) {
    return Failed(kName, ACL_ERROR_RT_MEMORY_ALLOCATION,
                  "no memory for " + std::to_string(size) + " bytes");
  }
  auto added = std::make_unique<Physical>(Physical{memory.end, size});
  memory.end += static_cast<off_t>(size);
  *handle = added.get();
  memory.physical[added.get()] = std::move(added);
  return ACL_SUCCESS;
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  constexpr const char* kName = "aclrtFreePhysical";
  VirtualMemory& memory = TheVirtualMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.physical.find(handle);
  if (found == memory.physical.end() || found->second->mapped) {
    return Failed(kName, ACL_ERROR_RT_PARAM_INVALID,
                  "handle does not exist, has been freed already, or is mapped");
  }
  fallocate(memory.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, found->second->offset,
            static_cast<off_t>(found->second->bytes));
  memory.physical.erase(found);
  return ACL_SUCCESS;
}

aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                     uint64_t flags) {
  constexpr const char* kName = "aclrtMapMem";
  TWIN_RETURN_IF_ERROR(CheckReady(kName));
  VirtualMemory& memory = TheVirtualMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.physical.find(handle);
  if (found == memory.physical.end() || found->second->mapped) {
    return Failed(kName, ACL_ERROR_RT_PARAM_INVALID, "handle does not exist, or is mapped");
  }
  Physical& physical = *found->second;
  if (offset != 0 || flags != 0 || size != physical.bytes || !IsReserved(memory, virPtr, size) ||
      DeviceBytesFrom(virPtr) > 0) {
    return Failed(kName, ACL_ERROR_RT_PARAM_INVALID,
                  "it must be all of the handle's memory, without flags, at reserved addresses "
                  "where nothing is mapped");
  }
  if (mmap(virPtr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory.file,
           physical.offset) != virPtr) {
    return Failed(kName, ACL_ERROR_RT_MEMORY_ALLOCATION, std::strerror(errno));
  }
  if (physical.fresh) std::memset(virPtr, kGarbage, size);
  physical.fresh = false;
  physical.mapped = true;
  memory.mappings[virPtr] = &physical;
  AddDevice(virPtr, size);
  return ACL_SUCCESS;
}

aclError aclrtUnmapMem(void* virPtr) {
  constexpr const char* kName = "aclrtUnmapMem";
  VirtualMemory& memory = TheVirtualMemory();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  const auto found = memory.mappings.find(virPtr);
  if (found == memory.mappings.end()) {
    return Failed(kName, ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at virPtr");
  }
  RemoveDevice(virPtr);
  found->second->mapped = false;
  const size_t bytes = found->second->bytes;
  memory.mappings.erase(found);
  if (Withdraw(virPtr, bytes)) return ACL_SUCCESS;
  return Failed(kName, ACL_ERROR_RT_MEMORY_ALLOCATION, std::strerror(errno));
}
