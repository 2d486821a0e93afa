#include <cstring>
#include <vector>

#include "twin/vector/compare.h"

namespace twin {
void UseSelectScratch(Instr* instr, int operand, LocalView* scratch) {
  // CANN asks for 8 KB, and keeps one scalar there, in 32 elements.
  constexpr uint32_t kBegin = 184 * 1024, kUsed = 128;
  for (const Buffer& buffer : instr->core().buffers) {
    const uint32_t end = buffer.address + buffer.bytes;
    if (!buffer.alive || buffer.memory != Hardware::UB || end <= kBegin) continue;
    instr->Warn("the last 8 KB of UB",
                Format("this mode needs the last 8 KB of UB, from byte %u, and writes bytes [%u, "
                       "%u); a buffer of the TPipe ends at byte %u",
                       kBegin, kBegin, kBegin + kUsed, end));
    break;
  }
  scratch->address = kBegin;
  scratch->bytes = kUsed;
  scratch->position = TPosition::VECCALC;
  instr->SetOperand(operand, Operand("CANN's own buffer", "uint8_t", 1, *scratch));
  instr->UseAsScratch(operand, Bytes{0, kUsed});
}

namespace {

using AscendC::SELMODE;

// The bits of a repeat, and where they come from.
class SelectionBits {
 public:
  SelectionBits(Instr& instr, const SelectCall& call, const Plan& plan, int mask_operand)
      : instr_(instr),
        plan_(plan),
        operand_(mask_operand),
        same_(call.mode == SELMODE::VSEL_CMPMASK_SPR) {
    if (mask_operand < 0) {
      std::memcpy(words_, instr.core().registers.compare_mask, sizeof(words_));
    }
  }
  void Read() {
    if (operand_ < 0) return;
    const uint64_t per_repeat = plan_.lanes / 8;
    const uint64_t tail = (plan_.tail + 7) / 8;
    if (same_) {
      instr_.Read(operand_, Bytes{0, plan_.whole != 0 ? per_repeat : tail});
    } else {
      instr_.Read(operand_, Bytes{0, plan_.whole * per_repeat + tail});
    }
  }
  bool Chosen(uint64_t repeat, uint32_t lane) const {
    const uint64_t bit = same_ ? lane : repeat * plan_.lanes + lane;
    if (operand_ < 0) return (words_[bit >> 6] >> (bit & 63) & 1) != 0;
    return (instr_.Data<uint8_t>(operand_)[bit / 8] >> (bit % 8) & 1) != 0;
  }

 private:
  Instr& instr_;
  const Plan& plan_;
  int operand_;
  bool same_;
  uint64_t words_[2] = {0, 0};
};

// The tensor whose address SetCmpMask has put into the register.
LocalView MaskAtAddress(const Instr& instr) {
  const LocalMemory& ub = UseMemory(instr.core(), Hardware::UB);
  const uint64_t address = instr.core().registers.compare_mask[0];
  const uint64_t begin = reinterpret_cast<uint64_t>(ub.data);
  const uint32_t size = MemoryBytes(Hardware::UB);
  instr.Check(address >= begin && address < begin + size,
              "CMPMASK does not hold the address of a tensor in UB, see SetCmpMask");
  LocalView view;
  view.address = static_cast<uint32_t>(address - begin);
  view.bytes = size - view.address;
  view.position = TPosition::VECCALC;
  return view;
}

}  // namespace

void RunSelect(const SelectCall& call, std::initializer_list<Operand> operands,
               const AscendC::BinaryRepeatParams& p) {
  Instr instr("Select", PIPE_V, call.where, operands);
  const bool scalar_mode = call.mode == SELMODE::VSEL_TENSOR_SCALAR_MODE;
  instr.Check(call.has_scalar == scalar_mode,
              call.has_scalar ? "src1 is a scalar: selMode has to be VSEL_TENSOR_SCALAR_MODE"
                              : "src1 is a tensor: selMode has to be VSEL_CMPMASK_SPR or "
                                "VSEL_TENSOR_TENSOR_MODE");
  instr.Check(!call.from_register || instr.core().registers.compare_mask_set,
              "nothing has set CMPMASK; call SetCmpMask or Compare first");
  int last = static_cast<int>(operands.size()) - 1;
  int mask_operand = call.from_register && !call.has_scalar ? -1 : 1;
  const int src0 = mask_operand + 1 > 0 ? mask_operand + 1 : 1;
  LocalView mask_view;
  if (mask_operand < 0 && call.mode == SELMODE::VSEL_TENSOR_TENSOR_MODE) {
    mask_view = MaskAtAddress(instr);
    mask_operand = last + 1;
    instr.SetOperand(mask_operand, Operand("selMask", "uint8_t", 1, mask_view));
  }

  const uint32_t width = operands.begin()->element;
  const Plan plan = MakePlan(instr, call.mask, kRepeatBytes / width);
  const Strides strides[] = {
      {p.dstBlkStride.wide(), p.dstRepStride.wide(), "dstBlkStride", "dstRepStride", 255},
      {p.src0BlkStride.wide(), p.src0RepStride.wide(), "src0BlkStride", "src0RepStride", 255},
      {p.src1BlkStride.wide(), p.src1RepStride.wide(), "src1BlkStride", "src1RepStride", 255}};
  for (int i = 0; i <= last; ++i) instr.InMemory(i, {Hardware::UB});
  const LaneOperand dst(instr, 0, width, plan, strides[0], true);
  const LaneOperand a(instr, src0, width, plan, strides[1], false);
  LaneOperand b;
  if (!scalar_mode) b = LaneOperand(instr, src0 + 1, width, plan, strides[2], false);
  EndPlan(instr, call.mask);
  if (plan.empty()) return;

  dst.CheckOverlap(instr, a);
  if (!scalar_mode) dst.CheckOverlap(instr, b);
  LocalView scratch;
  if (call.mode != SELMODE::VSEL_CMPMASK_SPR) {
    UseSelectScratch(&instr, std::max(last, mask_operand) + 1, &scratch);
  }
  SelectionBits bits(instr, call, plan, mask_operand);
  bits.Read();
  instr.Carries(src0);
  if (!scalar_mode) instr.Carries(src0 + 1);
  a.Read(instr);
  if (!scalar_mode) b.Read(instr);
  dst.Write(instr);
  instr.CountRepeats(plan.repeats());
  uint64_t scalar = call.scalar;
  if (call.from_register && scalar_mode) {
    std::memcpy(&scalar, instr.core().registers.compare_mask, width);
  }
  const auto each_lane = [&](auto&& use) {
    for (uint64_t repeat = 0; repeat < plan.repeats(); ++repeat) {
      const uint32_t end = repeat < plan.whole ? plan.lanes : plan.tail;
      for (uint32_t lane = 0; lane < end; ++lane) {
        if (repeat == plan.whole || plan.active(lane)) use(repeat, lane);
      }
    }
  };
  std::vector<bool> chosen;
  if (instr.missing()) {
    each_lane([&](uint64_t repeat, uint32_t lane) { chosen.push_back(bits.Chosen(repeat, lane)); });
  }
  const auto* constant = reinterpret_cast<const uint8_t*>(&scalar);
  each_lane([&](uint64_t repeat, uint32_t lane) {
    const uint8_t* from = bits.Chosen(repeat, lane) ? a.At(repeat, lane)
                          : scalar_mode             ? constant
                                                    : b.At(repeat, lane);
    std::memmove(dst.At(repeat, lane), from, width);
  });
  if (!instr.missing()) return;
  // Only what was chosen counts.
  instr.OnImages([&] {
    const LaneOperand to = dst.OnImage(instr), from_a = a.OnImage(instr);
    const LaneOperand from_b = scalar_mode ? from_a : b.OnImage(instr);
    auto first = chosen.begin();
    each_lane([&](uint64_t repeat, uint32_t lane) {
      const bool takes_a = *first++;
      const uint8_t* from = (takes_a ? from_a : from_b).At(repeat, lane);
      const bool lacks = (takes_a || !scalar_mode) && Lacks(from, width);
      SetLacks(to.At(repeat, lane), width, lacks);
    });
  });
}

}  // namespace twin
