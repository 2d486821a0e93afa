#include "cpu/engine/threads/scratch.h"

#include <sys/mman.h>

#include <atomic>
#include <new>

#include "cpu/runtime.h"

namespace nsa::cpu {
namespace {

// Large allocations start at a huge page and ask for such pages: otherwise a call spends several
// percent of its time on page faults.
constexpr int64_t kHugePage = 2 << 20;
// One freed allocation up to this size is kept for the next call, for the same reason.
constexpr int64_t kKept = 64 << 20;

struct Allocation {
  int64_t bytes;  // usable
};

constexpr int64_t kHeader = 64;

std::atomic<Allocation*> kept{nullptr};
std::atomic<int64_t> held{0};
std::atomic<int64_t> high_water{0};

std::align_val_t alignment(int64_t bytes) {
  return std::align_val_t(bytes + kHeader >= kHugePage ? kHugePage : 64);
}

void release(Allocation* allocation) {
  if (allocation) ::operator delete(allocation, alignment(allocation->bytes));
}

Allocation* allocate(int64_t bytes) {
  // 64 bytes at the end: vector loads may touch the cache line after the last element.
  const size_t total = static_cast<size_t>(bytes + kHeader + 64);
  void* memory = ::operator new(total, alignment(bytes));
  if (bytes + kHeader >= kHugePage) madvise(memory, total, MADV_HUGEPAGE);
  return new (memory) Allocation{bytes};
}

}  // namespace

Scratch::Scratch(int64_t bytes) : bytes_(bytes) {
  Allocation* allocation = kept.exchange(nullptr);
  if (allocation == nullptr || allocation->bytes < bytes) {
    release(allocation);
    allocation = allocate(bytes);
  }
  data_ = reinterpret_cast<char*>(allocation) + kHeader;
  int64_t now = held.fetch_add(bytes) + bytes;
  int64_t seen = high_water.load();
  while (now > seen && !high_water.compare_exchange_weak(seen, now)) {
  }
}

Scratch::~Scratch() {
  held.fetch_sub(bytes_);
  Allocation* allocation = reinterpret_cast<Allocation*>(data_ - kHeader);
  if (allocation->bytes <= kKept) allocation = kept.exchange(allocation);
  release(allocation);
}

int64_t scratch_high_water() { return high_water.load(); }
void reset_scratch_high_water() { high_water.store(held.load()); }

}  // namespace nsa::cpu
