#include "twin/clock/memory.h"

#include <algorithm>
#include <cmath>

namespace twin::clock {
namespace {

constexpr double kSlot = 256;  // cycles
constexpr uint64_t kLine = 128;

double HbmRate(const Options& options) {
  const Chip& chip = options.chip;
  return chip.hbm_bytes_per_second * options.costs.hbm_share / (chip.mhz * 1e6);
}

}  // namespace

double Ledger::Take(double start, double bytes, double most) {
  if (bytes <= 0) return start;
  taken_ += bytes;
  size_t slot = std::max(full_, static_cast<size_t>(start / kSlot));
  double at = std::max(start, static_cast<double>(slot) * kSlot);
  for (;; ++slot, at = static_cast<double>(slot) * kSlot) {
    if (slot >= used_.size()) used_.resize(2 * slot + 1024, 0.0f);
    const double slot_end = static_cast<double>(slot + 1) * kSlot;
    const double free = rate_ * kSlot - used_[slot];
    // A request that begins inside the slot gets at most its part of it.
    const double mine = std::min(free, (slot_end - at) * std::min(most, rate_));
    if (mine <= 0) continue;
    if (bytes <= mine) {
      used_[slot] += static_cast<float>(bytes);
      // At its own rate, or when the slot has served what was asked of it before.
      const double served = static_cast<double>(slot) * kSlot + used_[slot] / rate_;
      return std::max(at + bytes / std::min(most, rate_), served);
    }
    bytes -= mine;
    used_[slot] += static_cast<float>(mine);
    if (slot == full_ && used_[slot] >= rate_ * kSlot * 0.999) ++full_;
  }
}

Cache::Cache(uint64_t space, uint64_t capacity)
    : capacity_lines_(capacity / kLine), when_(space / kLine + 2, 0) {}

double Cache::Touch(uint64_t line, bool allocate_only) {
  uint64_t& when = when_[line];
  const bool held = when != 0 && filled_ - when < capacity_lines_;
  if (!held) ++filled_;
  when = std::max<uint64_t>(filled_, 1);
  return held || allocate_only ? 0 : static_cast<double>(kLine);
}

double Cache::Miss(const GmAccess& access) {
  double missed = 0;
  uint64_t last = ~uint64_t{0};
  for (uint64_t row = 0; row < access.rows; ++row) {
    const uint64_t begin = access.begin + row * access.pitch;
    const uint64_t end = begin + access.row_bytes;
    for (uint64_t line = begin / kLine; line * kLine < end; ++line) {
      if (line == last || line >= when_.size()) continue;
      last = line;
      const bool fresh = when_[line] == 0;
      const double bytes = Touch(line, access.write);
      // An output leaves L2 once.
      missed += access.write ? (fresh && access.leaves ? static_cast<double>(kLine) : 0) : bytes;
    }
  }
  return missed;
}

MemorySystem::MemorySystem(const Options& options, uint64_t space)
    : hbm_(HbmRate(options)), l2_(options.costs.l2_rate), cache_(space, options.chip.l2_bytes) {}

double MemorySystem::Run(double start, const GmAccess* accesses, int count, double rate,
                         double stretch) {
  double end = start;
  for (int i = 0; i < count; ++i) {
    const GmAccess& access = accesses[i];
    const double bytes = static_cast<double>(access.rows) * access.row_bytes;
    totals_.l2_bytes += bytes;
    const double missed = cache_.Miss(access);
    const double begin = end;
    end = l2_.Take(begin, bytes * stretch, rate);
    if (access.write) {
      // Written bytes wait in L2; that takes HBM's time, not the core's.
      hbm_.Take(begin, missed, hbm_.rate());
      totals_.hbm_written += missed;
    } else {
      end = std::max(end, hbm_.Take(begin, missed * stretch, rate));
      totals_.hbm_read += missed;
    }
  }
  return end;
}

bool MemorySystem::ScalarMiss(const GmAccess& access) {
  const double missed = cache_.Miss(access);
  totals_.hbm_read += access.write ? 0 : missed;
  return missed > 0;
}

}  // namespace twin::clock
