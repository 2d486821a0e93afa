#include "twin/clock/banks.h"

#include <algorithm>

namespace twin::clock {
namespace {

constexpr uint32_t kGroups = 16;
constexpr uint32_t kBankRows = 2048;  // blocks from one bank of a group to its next

uint32_t Group(uint32_t block) { return block % kGroups; }
// 0 to 47.
uint32_t Bank(uint32_t block) { return block % kGroups + block / kBankRows % 3 * kGroups; }

uint32_t BlockAt(const UbAccess& a, uint64_t repeat, uint32_t block) {
  return a.begin + static_cast<uint32_t>(repeat) * a.repeat_stride + block * a.block_stride;
}

// Blocks of one repeat: how many fall in each group, and which banks they take.
struct Use {
  uint8_t groups[kGroups] = {};
  uint64_t banks = 0;

  void Add(const UbAccess& a, uint64_t repeat) {
    // A block that is read again, in the repeat or by the next one, is read once.
    if (repeat > 0 && a.repeat_stride == 0 && !a.write) return;
    for (uint32_t b = 0; b < 8; ++b) {
      if (((a.blocks >> b) & 1) == 0) continue;
      const uint32_t block = BlockAt(a, repeat, b);
      ++groups[Group(block)];
      banks |= uint64_t{1} << Bank(block);
      if (a.block_stride == 0) break;
    }
  }
  uint32_t Most() const { return *std::max_element(groups, groups + kGroups); }
};

// Every block of the repeat is written to the bank that it is read from: the hardware then writes
// one repeat later.
bool SameBanks(const UbAccess& source, const UbAccess& target, uint64_t repeat) {
  if (source.blocks != target.blocks) return false;
  for (uint32_t b = 0; b < 8; ++b) {
    if (((source.blocks >> b) & 1) == 0) continue;
    if (Bank(BlockAt(source, repeat, b)) != Bank(BlockAt(target, repeat, b))) return false;
  }
  return true;
}

uint32_t OfRepeat(const UbAccess* sources, int count, const UbAccess* target, uint64_t repeat) {
  Use reads;
  bool delayed = false;
  for (int i = 0; i < count; ++i) {
    reads.Add(sources[i], repeat);
    delayed = delayed || (target != nullptr && SameBanks(sources[i], *target, repeat));
  }
  uint32_t cycles = std::max(1u, reads.Most());
  if (target == nullptr) return cycles - 1;
  Use writes;
  writes.Add(*target, repeat);
  cycles = std::max(cycles, writes.Most());
  if (delayed) {
    writes = Use{};
    if (repeat > 0) writes.Add(*target, repeat - 1);
  }
  // One more cycle lets the write pass the read.
  if ((reads.banks & writes.banks) != 0 && cycles == 1) ++cycles;
  return cycles - 1;
}

bool StaysInBank(const UbAccess& a, uint64_t repeats) {
  const uint32_t last = BlockAt(a, repeats - 1, 7);
  return a.begin / kBankRows == last / kBankRows;
}

}  // namespace

uint64_t BankConflicts(const UbAccess* sources, int count, const UbAccess* target,
                       uint64_t repeats) {
  bool periodic = repeats > kGroups + 1;
  for (int i = 0; i < count; ++i) periodic = periodic && StaysInBank(sources[i], repeats);
  if (target != nullptr) periodic = periodic && StaysInBank(*target, repeats);
  uint64_t total = 0;
  if (!periodic) {
    for (uint64_t r = 0; r < repeats; ++r) total += OfRepeat(sources, count, target, r);
    return total;
  }
  // From repeat 1 on the groups come round after 16 repeats.
  const uint64_t rounds = (repeats - 1) / kGroups, rest = (repeats - 1) % kGroups;
  total = OfRepeat(sources, count, target, 0);
  for (uint64_t r = 1; r <= kGroups; ++r) {
    total += OfRepeat(sources, count, target, r) * (rounds + (r <= rest));
  }
  return total;
}

}  // namespace twin::clock
