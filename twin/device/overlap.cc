// CANN's rule on the overlap of a vector instruction's destination and source.
#include <algorithm>
#include <vector>

#include "twin/device/instr.h"

namespace twin {
namespace {

struct Piece {
  uint64_t granule;
  uint32_t repeat;
  uint32_t mask;
  bool operator<(const Piece& other) const {
    return granule != other.granule ? granule < other.granule : repeat < other.repeat;
  }
};

uint64_t EndOf(const Lanes& lanes) {
  uint64_t end = 0;
  for (uint32_t block = 0; block < 8; ++block) {
    if (lanes.mask[block] != 0) {
      end = std::max<uint64_t>(end, (uint64_t{block} * lanes.block_stride + 1) * kBlockBytes);
    }
  }
  return end == 0 ? 0 : end + (lanes.repeats - 1ull) * lanes.repeat_stride * kBlockBytes;
}

std::vector<Piece> Pieces(const LocalView& view, const Lanes& lanes) {
  std::vector<Piece> pieces;
  for (uint32_t repeat = 0; repeat < lanes.repeats; ++repeat) {
    for (uint32_t block = 0; block < 8; ++block) {
      if (lanes.mask[block] == 0) continue;
      const uint64_t at =
          view.address + lanes.begin +
          (uint64_t{repeat} * lanes.repeat_stride + uint64_t{block} * lanes.block_stride) *
              kBlockBytes;
      const uint64_t wide = static_cast<uint64_t>(lanes.mask[block]) << (at % kBlockBytes);
      const uint32_t low = static_cast<uint32_t>(wide), high = static_cast<uint32_t>(wide >> 32);
      if (low != 0) pieces.push_back({at / kBlockBytes, repeat, low});
      if (high != 0) pieces.push_back({at / kBlockBytes + 1, repeat, high});
    }
  }
  std::sort(pieces.begin(), pieces.end());
  return pieces;
}

bool SamePattern(const Lanes& a, const Lanes& b) {
  return a.mask == b.mask && a.block_stride == b.block_stride &&
         a.repeat_stride == b.repeat_stride && a.repeats == b.repeats;
}

}  // namespace

std::string Instr::Overlap(int dst, const Lanes& dst_lanes, int src, const Lanes& src_lanes) const {
  const LocalView& d = *operands_[dst].local;
  const LocalView& s = *operands_[src].local;
  if (d.memory() != s.memory() || dst_lanes.repeats == 0) return {};
  const uint64_t d_begin = d.address + dst_lanes.begin, s_begin = s.address + src_lanes.begin;
  if (d_begin + EndOf(dst_lanes) <= s_begin || s_begin + EndOf(src_lanes) <= d_begin) return {};
  const bool same = d_begin == s_begin && SamePattern(dst_lanes, src_lanes);
  const bool dense =
      dst_lanes.repeat_stride >= 7 * dst_lanes.block_stride + 1 && dst_lanes.block_stride > 0;
  if (same && (dense || dst_lanes.repeats == 1)) return {};

  const std::vector<Piece> writes = Pieces(d, dst_lanes), reads = Pieces(s, src_lanes);
  std::vector<uint8_t> touches(dst_lanes.repeats, 0), differs(dst_lanes.repeats, 0);
  for (const Piece& read : reads) {
    uint32_t covered = 0;
    auto write = std::lower_bound(writes.begin(), writes.end(), Piece{read.granule, 0, 0});
    for (; write != writes.end() && write->granule == read.granule; ++write) {
      if ((write->mask & read.mask) == 0) continue;
      if (write->repeat < read.repeat) {
        return Format("illegal overlap: repeat %u writes bytes of %s that repeat %u reads from %s",
                      write->repeat, operands_[dst].role, read.repeat, operands_[src].role);
      }
      if (write->repeat == read.repeat) covered |= write->mask & read.mask;
    }
    if (covered != 0) touches[read.repeat] = 1;
    if (covered != read.mask) differs[read.repeat] = 1;
  }
  for (uint32_t repeat = 0; repeat < dst_lanes.repeats; ++repeat) {
    if (touches[repeat] && differs[repeat]) {
      return Format(
          "illegal overlap: in repeat %u %s and %s share some of their bytes; they have to be the "
          "same or apart",
          repeat, operands_[dst].role, operands_[src].role);
    }
  }
  return {};
}

void Instr::CheckDisjoint(int a, const Bytes& a_bytes, int b, const Bytes& b_bytes) {
  const LocalView& x = *operands_[a].local;
  const LocalView& y = *operands_[b].local;
  if (x.memory() != y.memory() || a_bytes.count == 0 || b_bytes.count == 0) return;
  const uint64_t x_begin = x.address + a_bytes.begin, y_begin = y.address + b_bytes.begin;
  Check(x_begin + a_bytes.count <= y_begin || y_begin + b_bytes.count <= x_begin,
        "illegal overlap: %s and %s share bytes of %s", operands_[a].role, operands_[b].role,
        MemoryName(x.memory()));
}

}  // namespace twin
