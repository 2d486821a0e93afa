#include "twin/vector/lanes.h"

#include <algorithm>

namespace twin {
namespace {

constexpr uint64_t kFull = ~uint64_t{0};
constexpr int64_t kMaxRepeats = 255;

// The mask register for the argument, and which kind of value that is.
MaskKind ArgumentMask(const Instr& instr, const MaskArgument& arg, uint32_t lanes, bool counter,
                      uint64_t mask[2]) {
  if (arg.form == MaskArgument::kCount) {
    instr.Check(arg.value >= 0, "count is %lld, it cannot be negative",
                static_cast<long long>(arg.value));
    mask[0] = static_cast<uint64_t>(arg.value);
    mask[1] = 0;
    return kMaskCount;
  }
  if (arg.form == MaskArgument::kBits) {
    mask[0] = arg.bits[0];
    mask[1] = arg.bits[1];
    if (counter) return kMaskCount;
    instr.Check(lanes > 64 || mask[1] == 0,
                "mask[1] is %#llx, but a repeat has %u elements of this type: only mask[0] counts",
                static_cast<unsigned long long>(mask[1]), lanes);
    instr.Check(lanes >= 64 || mask[0] >> (lanes & 63) == 0,
                "mask[0] is %#llx, but a repeat has %u elements of this type",
                static_cast<unsigned long long>(mask[0]), lanes);
    instr.Check((mask[0] | mask[1]) != 0, "mask[0] and mask[1] are 0, it has to name an element");
    return kMaskLanes;
  }
  if (counter) {
    mask[0] = static_cast<uint64_t>(arg.value);
    mask[1] = 0;
    return kMaskCount;
  }
  instr.Check(arg.value >= 1 && arg.value <= static_cast<int64_t>(lanes),
              "mask is %lld, it has to be 1 to %u for this type", static_cast<long long>(arg.value),
              lanes);
  LanesToMask(static_cast<uint64_t>(arg.value), mask);
  return kMaskLanes;
}

}  // namespace

void LanesToMask(uint64_t count, uint64_t mask[2]) {
  mask[0] = count >= 64 ? kFull : (uint64_t{1} << count) - 1;
  mask[1] = count >= 128 ? kFull : count > 64 ? (uint64_t{1} << (count - 64)) - 1 : 0;
}

Plan MakePlan(const Instr& instr, const MaskArgument& arg, uint32_t lanes) {
  Registers& registers = instr.core().registers;
  const bool count_form = arg.form == MaskArgument::kCount;
  if (count_form && arg.set) registers.counter_mode = true;
  const bool counter = registers.counter_mode;
  if (arg.set) {
    registers.mask_kind = ArgumentMask(instr, arg, lanes, counter, registers.mask);
  } else {
    instr.Check(registers.mask_kind != (counter ? kMaskLanes : kMaskCount),
                "the mask register was set for %s mode, but the mode is %s; call SetVectorMask for "
                "this mode or ResetMask",
                counter ? "normal" : "counter", counter ? "counter" : "normal");
  }

  Plan plan;
  plan.lanes = lanes;
  plan.contiguous = count_form;
  if (counter) {
    const uint64_t elements = registers.mask[0];
    plan.whole = elements / lanes;
    plan.tail = static_cast<uint32_t>(elements % lanes);
    instr.Check(plan.whole < (uint64_t{1} << 32), "%llu elements do not fit any buffer",
                static_cast<unsigned long long>(elements));
    LanesToMask(lanes, plan.mask);
    plan.all = true;
    // Counter mode ignores repeatTime: a real number of repeats shows that the mode was forgotten.
    instr.Check(
        count_form || arg.repeats <= 1 || arg.repeats == static_cast<int64_t>(plan.repeats()),
        "repeatTime is %lld, but the mask is in counter mode (SetMaskCount) and means %llu "
        "elements; call SetMaskNorm first, or pass repeatTime 1",
        static_cast<long long>(arg.repeats), static_cast<unsigned long long>(elements));
    return plan;
  }
  instr.Check(arg.repeats >= 0 && arg.repeats <= kMaxRepeats,
              "repeatTime is %lld, it has to be 0 to %lld", static_cast<long long>(arg.repeats),
              static_cast<long long>(kMaxRepeats));
  plan.whole = static_cast<uint64_t>(arg.repeats);
  uint64_t full[2];
  LanesToMask(lanes, full);
  plan.mask[0] = registers.mask[0] & full[0];
  plan.mask[1] = registers.mask[1] & full[1];
  plan.all = plan.mask[0] == full[0] && plan.mask[1] == full[1];
  return plan;
}

void EndPlan(const Instr& instr, const MaskArgument& arg) {
  if (arg.form != MaskArgument::kCount || !arg.set) return;
  Registers& registers = instr.core().registers;
  registers.counter_mode = false;
  registers.mask[0] = registers.mask[1] = kFull;
  registers.mask_kind = kMaskEither;
}

void CheckStrides(const Instr& instr, const Strides& strides) {
  instr.Check(strides.block >= 0 && strides.block <= strides.block_limit,
              "%s is %lld, it has to be 0 to %lld", strides.block_name,
              static_cast<long long>(strides.block), static_cast<long long>(strides.block_limit));
  instr.Check(strides.repeat >= 0 && strides.repeat <= strides.repeat_limit,
              "%s is %lld, it has to be 0 to %lld", strides.repeat_name,
              static_cast<long long>(strides.repeat), static_cast<long long>(strides.repeat_limit));
}

LaneOperand::LaneOperand(const Instr& instr, int operand, uint32_t width, const Plan& plan,
                         const Strides& strides, bool destination)
    : operand_(operand),
      width_(width),
      per_block_(kBlockBytes / width),
      lanes_(plan.lanes),
      plan_elements_(plan.whole * plan.lanes + plan.tail),
      plan_(&plan) {
  if (plan.contiguous) {
    repeat_ = plan.lanes * width / kBlockBytes;
  } else {
    CheckStrides(instr, strides);
    block_ = static_cast<uint32_t>(strides.block);
    repeat_ = static_cast<uint32_t>(strides.repeat);
    if (destination && block_ == 0) {
      const uint64_t beyond = per_block_ >= 64 ? 0 : plan.mask[0] >> per_block_;
      instr.Check((beyond | plan.mask[1]) == 0 || plan.empty(),
                  "%s is 0: the blocks of the destination would fall on one another",
                  strides.block_name);
    }
  }
  base_ = instr.Data<uint8_t>(operand);
}

Lanes LaneOperand::Whole() const {
  // Four words, for elements of one byte.
  const uint64_t bits[4] = {plan_->mask[0], plan_->mask[1], 0, 0};
  return Lanes::Bits(width_, bits, static_cast<uint32_t>(plan_->whole), block_, repeat_);
}

Lanes LaneOperand::Tail() const {
  Lanes tail = Lanes::First(width_, plan_->tail, 1, block_, repeat_);
  tail.begin = plan_->whole * repeat_ * kBlockBytes;
  return tail;
}

void LaneOperand::Read(Instr& instr) const {
  if (plan_->all && dense()) {
    instr.Read(operand_, Bytes{0, bytes()});
    return;
  }
  if (plan_->whole != 0) instr.Read(operand_, Whole());
  if (plan_->tail != 0) instr.Read(operand_, Tail());
}

void LaneOperand::Write(Instr& instr) const {
  if (plan_->all && dense()) {
    instr.Write(operand_, Bytes{0, bytes()});
    return;
  }
  if (plan_->whole != 0) instr.Write(operand_, Whole());
  if (plan_->tail != 0) instr.Write(operand_, Tail());
}

bool LaneOperand::CheckOverlap(const Instr& instr, const LaneOperand& source) const {
  if (SameAs(source)) return false;
  std::string broken;
  if (plan_->whole != 0) {
    broken = instr.Overlap(operand_, Whole(), source.operand_, source.Whole());
  }
  if (broken.empty() && plan_->tail != 0) {
    broken = instr.Overlap(operand_, Tail(), source.operand_, source.Tail());
  }
  if (broken.empty() && plan_->whole != 0 && plan_->tail != 0) {
    // No whole repeat may write what the partial one reads.
    broken = instr.Overlap(operand_, Whole(), source.operand_, source.Tail());
  }
  if (broken.empty()) return false;
  if (!plan_->contiguous) instr.Fail(broken);
  instr.Warn("operands overlap", broken + "; of this form no document says what comes out");
  return true;
}

bool LaneOperand::RepeatsMeet() const {
  if (plan_->whole < 2 || dense()) return false;
  const Lanes lanes = Whole();
  for (uint32_t apart = 0; apart < 8; ++apart) {
    // Block b + apart of a repeat lies where block b lies `later` repeats after it.
    const uint32_t blocks = apart * block_;
    if (repeat_ == 0 ? blocks != 0 : blocks == 0 || blocks % repeat_ != 0) continue;
    const uint64_t later = repeat_ == 0 ? 1 : blocks / repeat_;
    if (later >= plan_->whole) continue;
    for (uint32_t block = 0; block + apart < 8; ++block) {
      if ((lanes.mask[block] & lanes.mask[block + apart]) != 0) return true;
    }
  }
  return false;
}

bool LaneOperand::SameAs(const LaneOperand& other) const {
  return base_ == other.base_ && width_ == other.width_ && block_ == other.block_ &&
         (repeat_ == other.repeat_ || plan_->repeats() <= 1) &&
         (dense() || plan_->repeats() <= 1 || repeat_ * kBlockBytes >= lanes_ * width_);
}

namespace {

struct Runner {
  const LaneOperand& dst;
  const LaneOperand* a;
  const LaneOperand* b;
  uint64_t scalar;
  LaneFunction function;

  void operator()(uint64_t repeat, uint32_t lane, size_t n) const {
    function(dst.At(repeat, lane), a ? a->At(repeat, lane) : nullptr,
             b ? b->At(repeat, lane) : nullptr, scalar, n);
  }
};

// Consecutive lanes [begin, end) of one repeat, cut where an operand starts a new block.
void RunSpan(const Runner& run, uint64_t repeat, uint32_t begin, uint32_t end, uint32_t unit) {
  while (begin < end) {
    const uint32_t stop = std::min(end, (begin / unit + 1) * unit);
    run(repeat, begin, stop - begin);
    begin = stop;
  }
}

// An operand holds this in one repeat, as the instruction reads it.
class Taken {
 public:
  const uint8_t* operator()(const LaneOperand* operand, uint64_t repeat, uint64_t lanes,
                            uint32_t width) {
    if (operand == nullptr) return nullptr;
    const uint8_t* from = operand->At(repeat, 0);
    bytes_.assign(from, from + lanes * width);
    return bytes_.data();
  }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace

void RunRepeats(const Plan& plan, const LaneOperand& dst, const LaneOperand* a,
                const LaneOperand* b, uint64_t scalar, LaneFunction function) {
  Taken of_a, of_b;
  for (uint64_t repeat = 0; repeat < plan.repeats(); ++repeat) {
    const uint32_t lanes = repeat < plan.whole ? plan.lanes : plan.tail;
    const uint8_t* x = of_a(a, repeat, lanes, a ? a->width() : 0);
    const uint8_t* y = of_b(b, repeat, lanes, b ? b->width() : 0);
    function(dst.At(repeat, 0), x, y, scalar, lanes);
  }
}

void RunLanes(const Plan& plan, const LaneOperand& dst, const LaneOperand* a, const LaneOperand* b,
              uint64_t scalar, LaneFunction function) {
  const Runner run{dst, a, b, scalar, function};
  if (plan.all && dst.dense() && (!a || a->dense()) && (!b || b->dense())) {
    run(0, 0, plan.whole * plan.lanes + plan.tail);
    return;
  }
  uint32_t unit = plan.lanes;
  for (const LaneOperand* operand : {&dst, a, b}) {
    if (operand && !operand->dense_repeat()) unit = std::min(unit, operand->per_block());
  }
  for (uint64_t repeat = 0; repeat < plan.whole; ++repeat) {
    for (uint32_t lane = 0; lane < plan.lanes;) {
      if (!plan.active(lane)) {
        ++lane;
        continue;
      }
      uint32_t end = lane + 1;
      while (end < plan.lanes && plan.active(end)) ++end;
      RunSpan(run, repeat, lane, end, unit);
      lane = end;
    }
  }
  if (plan.tail != 0) RunSpan(run, plan.whole, 0, plan.tail, unit);
}

namespace {

// A LaneFunction on images: the scalar holds the widths of dst, a and b, and whether dst is read.
void CarryLoop(uint8_t* dst, const uint8_t* a, const uint8_t* b, uint64_t widths, size_t n) {
  const uint64_t to = widths & 0xff, from_a = widths >> 8 & 0xff, from_b = widths >> 16 & 0xff;
  const bool reads_dst = widths >> 24 != 0;
  for (size_t i = 0; i < n; ++i, dst += to) {
    const bool lacks = (a != nullptr && Lacks(a + i * from_a, from_a)) ||
                       (b != nullptr && Lacks(b + i * from_b, from_b)) ||
                       (reads_dst && Lacks(dst, to));
    SetLacks(dst, to, lacks);
  }
}

}  // namespace

void CarryLanes(Instr& instr, const Plan& plan, const LaneOperand& dst, const LaneOperand* a,
                const LaneOperand* b, bool reads_dst, bool by_repeats) {
  instr.OnImages([&] {
    const LaneOperand to = dst.OnImage(instr);
    const LaneOperand from_a = a != nullptr ? a->OnImage(instr) : to;
    const LaneOperand from_b = b != nullptr ? b->OnImage(instr) : to;
    const uint64_t widths = to.width() | from_a.width() << 8 | from_b.width() << 16 |
                            static_cast<uint64_t>(reads_dst) << 24;
    (by_repeats ? RunRepeats : RunLanes)(plan, to, a != nullptr ? &from_a : nullptr,
                                         b != nullptr ? &from_b : nullptr, widths, CarryLoop);
  });
}

void CarryKept(Instr& instr, int dst, int src, const std::vector<bool>& kept) {
  const uint64_t width = instr.operand(dst).element;
  instr.OnImages([&] {
    const uint8_t* from = instr.Data<uint8_t>(src);
    uint8_t* to = instr.Data<uint8_t>(dst);
    for (size_t i = 0; i < kept.size(); ++i, from += width, to += width) {
      SetLacks(to, width, kept[i] && Lacks(from, width));
    }
  });
}

}  // namespace twin
