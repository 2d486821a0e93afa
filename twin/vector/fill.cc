#include "twin/vector/fill.h"

#include <cstring>
#include <vector>

namespace twin {
namespace {

constexpr uint32_t kBlocks = kRepeatBytes / kBlockBytes;

Lanes FullRepeats(uint32_t element, int64_t repeats, int64_t block, int64_t repeat) {
  return Lanes::First(element, kRepeatBytes / element, static_cast<uint32_t>(repeats),
                      static_cast<uint32_t>(block), static_cast<uint32_t>(repeat));
}

uint64_t Extent(int64_t repeats, int64_t block, int64_t repeat) {
  return kBlockBytes * static_cast<uint64_t>((repeats - 1) * repeat + (kBlocks - 1) * block + 1);
}

// In counter mode Copy moves the mask's number of elements in every one of its repeats.
void CopyCounted(Instr& instr, uint64_t bytes, const MaskArgument& mask, const Strides& to,
                 const Strides& from) {
  instr.Check(mask.repeats >= 0 && mask.repeats <= 255, "repeatTime is %lld, it has to be 0 to 255",
              static_cast<long long>(mask.repeats));
  const uint64_t whole = bytes / kBlockBytes;
  const uint64_t rest = bytes % kBlockBytes;
  instr.Carries(1);
  const auto at = [](const Strides& s, uint64_t r, uint64_t b) {
    return kBlockBytes * (r * static_cast<uint64_t>(s.repeat) + b * static_cast<uint64_t>(s.block));
  };
  for (uint64_t r = 0; r < static_cast<uint64_t>(mask.repeats); ++r) {
    for (uint64_t b = 0; b < whole + (rest != 0); ++b) {
      const uint64_t n = b < whole ? kBlockBytes : rest;
      instr.Read(1, Bytes{at(from, r, b), n});
      instr.Write(0, Bytes{at(to, r, b), n});
      instr.MoveBytes([&] {
        std::memmove(instr.Data<uint8_t>(0) + at(to, r, b), instr.Data<uint8_t>(1) + at(from, r, b),
                     n);
      });
    }
  }
  instr.CountRepeats(static_cast<uint64_t>(mask.repeats));
}

template <typename T>
void CopyLoop(uint8_t* dst, const uint8_t* src, const uint8_t*, uint64_t, size_t n) {
  std::memmove(dst, src, n * sizeof(T));
}

}  // namespace

void RunBrcb(const Where& where, const Operand& dst, const Operand& src, int64_t repeats,
             const AscendC::BrcbRepeatParams& params) {
  Instr instr("Brcb", PIPE_V, where, {dst, src});
  instr.InMemory(0, {Hardware::UB});
  instr.InMemory(1, {Hardware::UB});
  const Strides to{params.dstBlkStride.wide(),
                   params.dstRepStride.wide(),
                   "dstBlkStride",
                   "dstRepStride",
                   65535,
                   65535};
  CheckStrides(instr, to);
  instr.Check(repeats >= 0 && repeats <= 255, "repeatTime is %lld, it has to be 0 to 255",
              static_cast<long long>(repeats));
  if (repeats == 0) return;
  instr.Check(to.block != 0, "dstBlkStride is 0: the blocks would fall on one another");
  const uint32_t width = dst.element;
  const uint64_t elements = kBlocks * static_cast<uint64_t>(repeats);
  instr.CheckDisjoint(0, Bytes{0, Extent(repeats, to.block, to.repeat)}, 1,
                      Bytes{0, elements * width});
  instr.Carries(1);
  instr.Read(1, Bytes{0, elements * width});
  instr.Write(0, FullRepeats(width, repeats, to.block, to.repeat));
  instr.CountRepeats(static_cast<uint64_t>(repeats));
  instr.MoveBytes([&] {
    uint8_t* d = instr.Data<uint8_t>(0);
    const uint8_t* s = instr.Data<uint8_t>(1);
    for (uint64_t i = 0; i < elements; ++i) {
      uint8_t* block = d + kBlockBytes * (i / kBlocks * static_cast<uint64_t>(to.repeat) +
                                          i % kBlocks * static_cast<uint64_t>(to.block));
      for (uint32_t byte = 0; byte < kBlockBytes; byte += width) {
        std::memcpy(block + byte, s + i * width, width);
      }
    }
  });
}

void RunCopy(const Where& where, const MaskArgument& mask, const Operand& dst, const Operand& src,
             const AscendC::CopyRepeatParams& params) {
  const Strides to{params.dstStride.wide(),
                   params.dstRepeatSize.wide(),
                   "dstStride",
                   "dstRepeatSize",
                   65535,
                   4095};
  const Strides from{params.srcStride.wide(),
                     params.srcRepeatSize.wide(),
                     "srcStride",
                     "srcRepeatSize",
                     65535,
                     4095};
  const Registers& registers = ThisCore("Copy", where).registers;
  if (!registers.counter_mode) {
    RunElementwise(
        {"Copy", where, mask, dst.element == 2 ? &CopyLoop<uint16_t> : &CopyLoop<uint32_t>},
        {dst, src}, {to, from});
    return;
  }
  Instr instr("Copy", PIPE_V, where, {dst, src});
  instr.InMemory(0, {Hardware::UB});
  instr.InMemory(1, {Hardware::UB});
  CheckStrides(instr, to);
  CheckStrides(instr, from);
  MaskArgument once = mask;
  once.repeats = 1;
  const Plan plan = MakePlan(instr, once, kRepeatBytes / dst.element);
  CopyCounted(instr, (plan.whole * plan.lanes + plan.tail) * dst.element, mask, to, from);
}

void RunCreateVecIndex(const IndexRamp& ramp, const Operand& dst, const Strides& strides) {
  const uint32_t width = dst.element;
  const uint32_t lanes = kRepeatBytes / width;
  const uint32_t per_block = kBlockBytes / width;
  Instr instr("CreateVecIndex", PIPE_V, ramp.where, {dst});
  instr.InMemory(0, {Hardware::UB});
  const Plan plan = MakePlan(instr, ramp.mask, lanes);
  const LaneOperand to(instr, 0, width, plan, strides, true);
  EndPlan(instr, ramp.mask);
  if (plan.empty()) return;

  // The first repeat, then each repeat from the one before.
  std::vector<uint8_t> values(kRepeatBytes);
  const bool bits = ramp.mask.form == MaskArgument::kBits;
  const uint32_t by_scalar = bits ? lanes : per_block;
  for (uint32_t i = 0; i < lanes; ++i) {
    uint8_t* value = values.data() + i * width;
    if (i < by_scalar) {
      ramp.start(value, ramp.first, i);
    } else {
      ramp.next(value, value - kBlockBytes, per_block);
    }
  }
  bool vector_part = plan.repeats() > 1;
  for (uint32_t i = 0; i < lanes; ++i) {
    const bool first = plan.whole != 0 ? plan.active(i) : i < plan.tail;
    if (!first) continue;
    if (i >= by_scalar) {
      vector_part = true;
      break;
    }
    const uint64_t offset = to.Offset(0, i);
    void* element = ScalarWrite(*dst.local, offset / width, dst, ramp.where);
    std::memcpy(element, values.data() + i * width, width);
  }
  Order(instr.core(), PIPE_S, PIPE_V);
  if (!vector_part) return;

  Instr rest("CreateVecIndex", PIPE_V, ramp.where, {dst});
  LaneOperand all(rest, 0, width, plan, strides, true);
  all.Write(rest);
  rest.CountRepeats(plan.repeats());
  for (uint64_t repeat = 0; repeat < plan.repeats(); ++repeat) {
    const uint32_t end = repeat < plan.whole ? lanes : plan.tail;
    for (uint32_t i = 0; i < end; ++i) {
      if (repeat < plan.whole && !plan.active(i)) continue;
      std::memcpy(all.At(repeat, i), values.data() + i * width, width);
    }
    for (uint32_t i = 0; i < lanes; ++i) {
      uint8_t* value = values.data() + i * width;
      ramp.next(value, value, lanes);
    }
  }
}

}  // namespace twin
