#include "twin/clock/record.h"

#include <algorithm>

#include "twin/clock/banks.h"

namespace twin::clock {
namespace {

constexpr uint64_t kBlock = 32;
// An instruction that touches more runs than these gathers; no pattern of banks is seen in it.
constexpr size_t kMostTouched = 8;

}  // namespace

void CoreRecord::Begin(uint32_t site, int pipe, uint32_t element, Memory to, Memory from) {
  Close();
  Op& op = ops.emplace_back();
  op.site = site;
  op.pipe = static_cast<uint8_t>(pipe);
  op.element = static_cast<uint8_t>(element);
  op.to = to;
  op.from = from;
  op.first_access = static_cast<uint32_t>(accesses.size());
}

void CoreRecord::Sync(OpKind kind, uint32_t site, int pipe, int other, int id) {
  Close();
  Op& op = ops.emplace_back();
  op.kind = kind;
  op.site = site;
  op.pipe = static_cast<uint8_t>(pipe);
  op.other = static_cast<uint8_t>(other);
  op.id = static_cast<uint16_t>(id);
}

void CoreRecord::Global(const GmAccess& access) {
  Op& op = ops.back();
  if (op.accesses == 0xffff) return;
  ++op.accesses;
  accesses.push_back(access);
  GmAccess& added = accesses.back();
  // Rows without a gap are one; not on their way to L1, which may be into another layout.
  const uint64_t bytes = uint64_t{added.rows} * added.row_bytes;
  if (op.to == Memory::kL1 || added.pitch != added.row_bytes || bytes > 0xffffffffu) return;
  added.rows = 1;
  added.row_bytes = static_cast<uint32_t>(bytes);
}

void CoreRecord::Local(int operand, bool write, uint64_t begin, uint64_t rows, uint64_t row_bytes) {
  Op& op = ops.back();
  const uint64_t bytes = rows * row_bytes;
  (write ? op.written_bytes : op.read_bytes) += static_cast<uint32_t>(bytes);
  if (op.pipe != kV || touched_.size() > kMostTouched) return;
  touched_.push_back({operand, begin, bytes, UbAccess{0, 0, 1, 8, 0xff, write}});
}

void CoreRecord::Lanes(int operand, const UbAccess& access, uint64_t bytes) {
  Op& op = ops.back();
  (access.write ? op.written_bytes : op.read_bytes) += static_cast<uint32_t>(bytes);
  if (op.pipe != kV || touched_.size() > kMostTouched) return;
  touched_.push_back({operand, 0, 0, access});
}

void CoreRecord::Units(uint64_t begin, uint64_t end, int64_t flag) {
  Op& op = ops.back();
  const bool first = op.unit_flag == 0;
  op.unit_flag = static_cast<uint8_t>(flag);
  op.unit_begin = static_cast<uint16_t>(first ? begin : std::min<uint64_t>(op.unit_begin, begin));
  op.unit_end = static_cast<uint16_t>(std::max<uint64_t>(op.unit_end, end));
}

void CoreRecord::Close() {
  if (!touched_.empty() && !ops.empty()) CountConflicts(&ops.back());
  touched_.clear();
}

void CoreRecord::CountConflicts(Op* op) {
  if (touched_.size() > kMostTouched || op->repeats == 0) return;
  // The whole repeats of each operand come first.
  UbAccess sources[4], target{};
  int count = 0, seen = 0;
  bool has_target = false;
  for (const Touched& t : touched_) {
    const int bit = 1 << (2 * std::min(t.operand, 7) + t.lanes.write);
    // dst is read again where it is summed into; that is part of the instruction's rate.
    const bool accumulates = t.operand == 0 && !t.lanes.write;
    if ((seen & bit) != 0 || accumulates) continue;
    seen |= bit;
    UbAccess access = t.lanes;
    if (t.bytes != 0) {
      const uint64_t blocks =
          std::min<uint64_t>(8, (t.bytes + op->repeats * kBlock - 1) / (op->repeats * kBlock));
      access.begin = static_cast<uint32_t>(t.begin / kBlock);
      access.repeats = op->repeats;
      access.repeat_stride = static_cast<uint32_t>(blocks);
      access.blocks = static_cast<uint8_t>((1u << blocks) - 1);
    }
    if (access.write) {
      target = access;
      has_target = true;
    } else if (count < 4) {
      sources[count++] = access;
    }
  }
  op->conflicts = static_cast<uint32_t>(
      BankConflicts(sources, count, has_target ? &target : nullptr, op->repeats));
}

}  // namespace twin::clock
