#include "twin/device/core.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "twin/device/launch_state.h"

namespace twin {

Core* current_core = nullptr;
LaunchState* current_launch = nullptr;

Core& ThisCore(const char* what, const Where& where) {
  if (current_core == nullptr) Fail(what, where, "called outside a kernel");
  LaunchState& launch = *current_core->launch;
  if (__builtin_expect(launch.probing, 0) && where.file != nullptr)
    launch.probed.insert(where.file);
  return *current_core;
}

void Order(Core& core, pipe_t from, pipe_t to) {
  const int p = PipeIndex(from), q = PipeIndex(to);
  if (p == q) {
    RecordSync(core, clock::OpKind::kBarrier, "PipeBarrier", {}, p, 0, 0);
  } else {
    // Beyond the ids that kernels use: no other wait takes it.
    RecordSync(core, clock::OpKind::kSetFlag, "SetFlag", {}, p, q, kEventIds);
    RecordSync(core, clock::OpKind::kWaitFlag, "WaitFlag", {}, p, q, kEventIds);
  }
  JoinScalar(core, p);
  for (int r = 0; r < kPipes; ++r) {
    const uint32_t known = r == p ? core.issued[p] : core.seen[p][r];
    core.seen[q][r] = std::max(core.seen[q][r], known);
  }
}

namespace {

// Memory and shadow of one kind, kept for the next launch.
using MemoryPool = std::vector<std::unique_ptr<LocalMemory>>;
MemoryPool& PoolOf(Hardware memory) {
  static auto* pools = new MemoryPool[kMemories];
  return pools[static_cast<int>(memory)];
}

}  // namespace

LocalMemory& UseMemory(Core& core, Hardware memory) {
  std::unique_ptr<LocalMemory>& mine = core.memory[static_cast<int>(memory)];
  if (mine != nullptr) return *mine;
  MemoryPool& pool = PoolOf(memory);
  if (!pool.empty()) {
    mine = std::move(pool.back());
    pool.pop_back();
    return *mine;
  }
  mine = std::make_unique<LocalMemory>();
  const uint32_t bytes = MemoryBytes(memory);
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  mine->data = static_cast<uint8_t*>(pages);
  mine->shadow.Resize(bytes);
  return *mine;
}

void ReleaseMemories(Core& core) {
  for (int i = 0; i < kMemories; ++i) {
    if (core.memory[i] == nullptr) continue;
    core.memory[i]->shadow.Clear();
    PoolOf(static_cast<Hardware>(i)).push_back(std::move(core.memory[i]));
  }
}

bool IsVectorCore() { return current_core != nullptr && !current_core->cube; }
bool IsCubeCore() { return current_core != nullptr && current_core->cube; }

}  // namespace twin
