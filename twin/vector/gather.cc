#include "twin/vector/gather.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace twin {
namespace {

// The tensors lie in UB and begin with a block; elements are read from anywhere.
void CheckPlaces(Instr& instr, int operands) {
  for (int i = 0; i < operands; ++i) {
    instr.InMemory(i, {Hardware::UB});
    const Operand& operand = instr.operand(i);
    instr.Check(operand.local->address % kBlockBytes == 0,
                "%s is at byte %u of UB; the address has to be a multiple of %u", operand.role,
                operand.local->address, kBlockBytes);
  }
}

bool PatternBit(int pattern, uint64_t element) {
  if (pattern == 7) return true;
  if (pattern <= 2) return static_cast<int>(element % 2) == pattern - 1;
  return static_cast<int>(element % 4) == pattern - 3;
}

uint32_t OffsetAt(const Instr& instr, uint64_t index) {
  uint32_t offset;
  std::memcpy(&offset, instr.Data<uint8_t>(2) + 4 * index, 4);
  return offset;
}

}  // namespace

void RunGather(const Where& where, const MaskArgument& mask, const Operand& dst, const Operand& src,
               const Operand& offsets, uint64_t base, int64_t dst_repeat) {
  Instr instr("Gather", PIPE_V, where, {dst, src, offsets});
  CheckPlaces(instr, 3);
  const uint32_t width = dst.element;
  const Plan plan = MakePlan(instr, mask, kRepeatBytes / width);
  const LaneOperand to(instr, 0, width, plan,
                       {1, dst_repeat, "dstBlkStride", "dstRepStride", 65535, 65535}, true);
  EndPlan(instr, mask);
  if (plan.empty()) return;
  instr.Check(base % width == 0, "srcBaseOffset is %llu bytes, not a multiple of the element's %u",
              static_cast<unsigned long long>(base), width);

  std::vector<uint64_t> places;
  uint64_t lowest = ~uint64_t{0}, highest = 0;
  const auto each_lane = [&](auto&& use) {
    for (uint64_t repeat = 0; repeat < plan.repeats(); ++repeat) {
      const uint32_t end = repeat < plan.whole ? plan.lanes : plan.tail;
      for (uint32_t lane = 0; lane < end; ++lane) {
        if (repeat == plan.whole || plan.active(lane)) use(repeat, lane);
      }
    }
  };
  instr.Carries(1);
  each_lane([&](uint64_t repeat, uint32_t lane) {
    const uint64_t index = repeat * plan.lanes + lane;
    instr.Read(2, Bytes{4 * index, 4}, 0);
    const uint32_t offset = OffsetAt(instr, index);
    instr.Check(offset % width == 0,
                "srcOffset[%llu] is %u bytes, not a multiple of the element's %u",
                static_cast<unsigned long long>(index), offset, width);
    const uint64_t at = base + offset;
    instr.Read(1, Bytes{at, width}, 0);
    lowest = std::min(lowest, at);
    highest = std::max(highest, at + width);
    places.push_back(at);
  });
  const uint64_t last = to.Offset(plan.repeats() - 1, plan.lanes - 1) + width;
  instr.CheckDisjoint(0, Bytes{0, last}, 1, Bytes{lowest, highest - lowest});
  to.Write(instr);
  instr.CountRepeats(plan.repeats());
  instr.MoveBytes([&] {
    const LaneOperand target = to.OnImage(instr);
    const uint8_t* from = instr.Data<uint8_t>(1);
    auto place = places.begin();
    each_lane([&](uint64_t repeat, uint32_t lane) {
      std::memcpy(target.At(repeat, lane), from + *place++, width);
    });
  });
}

void RunGatherb(const Where& where, const Operand& dst, const Operand& src, const Operand& offsets,
                int64_t repeats, const AscendC::GatherRepeatParams& params) {
  Instr instr("Gatherb", PIPE_V, where, {dst, src, offsets});
  CheckPlaces(instr, 3);
  Strides to{params.dstBlkStride.wide(),
             params.dstRepStride.wide(),
             "dstBlkStride",
             "dstRepStride",
             255,
             65535};
  CheckStrides(instr, to);
  instr.Check(repeats >= 0 && repeats <= 255, "repeatTime is %lld, it has to be 0 to 255",
              static_cast<long long>(repeats));
  if (repeats == 0) return;
  if (to.block == 0) to.block = 1;
  // The instruction takes no mask; CANN resets the register before it.
  instr.core().registers.mask[0] = instr.core().registers.mask[1] = ~uint64_t{0};
  instr.core().registers.mask_kind = kMaskEither;
  const uint64_t blocks = 8 * static_cast<uint64_t>(repeats);
  instr.Read(2, Bytes{0, 4 * blocks});
  std::vector<uint64_t> places;
  instr.Carries(1);
  uint64_t lowest = ~uint64_t{0}, highest = 0;
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t offset = OffsetAt(instr, i);
    instr.Read(1, Bytes{offset, kBlockBytes});
    lowest = std::min(lowest, offset);
    highest = std::max(highest, offset + kBlockBytes);
    places.push_back(offset);
  }
  const Lanes lanes =
      Lanes::First(dst.element, kRepeatBytes / dst.element, static_cast<uint32_t>(repeats),
                   static_cast<uint32_t>(to.block), static_cast<uint32_t>(to.repeat));
  const auto at = [&](uint64_t i) {
    return kBlockBytes *
           (i / 8 * static_cast<uint64_t>(to.repeat) + i % 8 * static_cast<uint64_t>(to.block));
  };
  instr.CheckDisjoint(0, Bytes{0, at(blocks - 1) + kBlockBytes}, 1,
                      Bytes{lowest, highest - lowest});
  instr.Write(0, lanes);
  instr.CountRepeats(static_cast<uint64_t>(repeats));
  instr.MoveBytes([&] {
    uint8_t* d = instr.Data<uint8_t>(0);
    const uint8_t* from = instr.Data<uint8_t>(1);
    for (uint64_t i = 0; i < blocks; ++i) std::memcpy(d + at(i), from + places[i], kBlockBytes);
  });
}

uint64_t RunGatherMask(const GatherMaskCall& call, std::initializer_list<Operand> operands) {
  Instr instr("GatherMask", PIPE_V, call.where, operands);
  CheckPlaces(instr, static_cast<int>(operands.size()));
  const uint32_t width = operands.begin()->element;
  const Strides from{call.params.src0BlockStride.wide(),
                     call.params.src0RepeatStride.wide(),
                     "src0BlockStride",
                     "src0RepeatStride",
                     255,
                     65535};
  CheckStrides(instr, from);
  const int64_t repeats = call.params.repeatTimes.wide();
  const int64_t pattern_stride = call.params.src1RepeatStride.wide();
  instr.Check(repeats >= 0 && repeats <= 65535, "repeatTimes is %lld, it has to be 0 to 65535",
              static_cast<long long>(repeats));
  instr.Check(pattern_stride >= 0 && pattern_stride <= 255,
              "src1RepeatStride is %lld, it has to be 0 to 255",
              static_cast<long long>(pattern_stride));
  instr.Check(call.pattern >= 0 && call.pattern <= 7, "src1Pattern is %d, it has to be 1 to 7",
              call.pattern < 0 ? 0 : call.pattern);
  instr.Check(!call.counter || call.elements >= 1,
              "mask is 0; with reduceMode it is the number of elements of a repeat");

  const uint32_t lanes = call.counter ? call.elements : kRepeatBytes / width;
  const uint32_t per_block = kBlockBytes / width;
  std::vector<uint64_t> kept;  // where they lie
  uint64_t extent = 0;
  instr.Carries(1);
  for (uint64_t r = 0; r < static_cast<uint64_t>(repeats); ++r) {
    const uint64_t bits_at = kBlockBytes * static_cast<uint64_t>(pattern_stride) * r;
    if (call.pattern == 0) instr.Read(2, Bytes{bits_at, (lanes + 7) / 8});
    for (uint32_t i = 0; i < lanes; ++i) {
      const bool keep = call.pattern != 0
                            ? PatternBit(call.pattern, i)
                            : (instr.Data<uint8_t>(2)[bits_at + i / 8] >> (i % 8) & 1) != 0;
      if (!keep) continue;
      const uint64_t at = kBlockBytes * (r * static_cast<uint64_t>(from.repeat) +
                                         i / per_block * static_cast<uint64_t>(from.block)) +
                          i % per_block * width;
      instr.Read(1, Bytes{at, width}, 0);
      extent = std::max(extent, at + width);
      kept.push_back(at);
    }
  }
  Registers& registers = instr.core().registers;
  registers.counter_mode = false;
  registers.mask[0] = call.elements;
  registers.mask[1] = 0;
  registers.mask_kind = kMaskCount;
  registers.reserved_count = kept.size();
  if (!kept.empty()) {
    const Bytes packed{0, kept.size() * width};
    // Packing in place never overtakes the source; any other overlap would.
    if (instr.Data<uint8_t>(0) != instr.Data<uint8_t>(1)) {
      instr.CheckDisjoint(0, packed, 1, Bytes{0, extent});
    }
    instr.Write(0, packed);
    instr.MoveBytes([&] {
      const uint8_t* from = instr.Data<uint8_t>(1);
      std::vector<uint8_t> values(packed.count);
      for (size_t i = 0; i < kept.size(); ++i) {
        std::memcpy(&values[i * width], from + kept[i], width);
      }
      std::memcpy(instr.Data<uint8_t>(0), values.data(), values.size());
    });
  }
  instr.CountRepeats(static_cast<uint64_t>(repeats));
  return registers.reserved_count;
}

}  // namespace twin
