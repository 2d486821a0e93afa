#include "twin/vector/compare.h"

#include <cstring>

namespace twin {
namespace {

using AscendC::CMPMODE;
using AscendC::SELMODE;

constexpr uint32_t kRegisterBytes = 16;

void CheckMode(const Instr& instr, const CompareCall& call) {
  instr.Check(static_cast<int>(call.mode) <= static_cast<int>(CMPMODE::NE),
              "cmpMode %d is not a comparison", static_cast<int>(call.mode));
  instr.Check(!call.equality_only || call.mode == CMPMODE::EQ, "int32_t takes CMPMODE::EQ only");
}

void PackBits(const bool* flags, size_t n, uint8_t* bytes) {
  for (size_t i = 0; i < n; i += 8) {
    uint8_t byte = 0;
    for (size_t k = 0; k < 8; ++k) byte |= static_cast<uint8_t>(flags[i + k]) << k;
    bytes[i / 8] = byte;
  }
}

// The eight blocks of a repeat, one call per block.
void CompareRepeat(const CompareCall& call, const LaneOperand& a, const LaneOperand* b,
                   uint64_t repeat, uint32_t lanes, bool* flags) {
  for (uint32_t lane = 0; lane < lanes; lane += a.per_block()) {
    call.function(a.At(repeat, lane), b ? b->At(repeat, lane) : nullptr, call.scalar, a.per_block(),
                  flags + lane);
  }
}

Plan FullPlan(uint32_t lanes, uint64_t repeats, bool contiguous) {
  Plan plan;
  plan.lanes = lanes;
  plan.whole = repeats;
  plan.all = true;
  plan.contiguous = contiguous;
  LanesToMask(lanes, plan.mask);
  return plan;
}

}  // namespace

void RunCompare(const CompareCall& call, std::initializer_list<Operand> operands,
                std::initializer_list<Strides> strides) {
  Instr instr(call.name, PIPE_V, call.where, operands);
  const int count = static_cast<int>(operands.size());
  for (int i = 0; i < count; ++i) instr.InMemory(i, {Hardware::UB});
  CheckMode(instr, call);
  const uint32_t width = operands.begin()[1].element;
  const uint32_t lanes = kRepeatBytes / width;
  const bool count_form = call.count >= 0;
  instr.Check(!count_form || call.count % lanes == 0,
              "count is %lld elements; they have to fill 256 bytes, so a multiple of %u",
              static_cast<long long>(call.count), lanes);
  instr.Check(call.repeats >= 0 && call.repeats <= 255, "repeatTime is %lld, it has to be 0 to 255",
              static_cast<long long>(call.repeats));
  const uint64_t repeats = static_cast<uint64_t>(count_form ? call.count / lanes : call.repeats);
  if (repeats == 0) return;

  const Plan plan = FullPlan(lanes, repeats, count_form);
  LaneOperand source[2];
  for (int i = 1; i < count; ++i) {
    source[i - 1] = LaneOperand(instr, i, width, plan, strides.begin()[i - 1], false);
    source[i - 1].Read(instr);
    instr.CheckDisjoint(0, Bytes{0, repeats * lanes / 8}, i,
                        Bytes{0, source[i - 1].Offset(repeats - 1, lanes - 1) + width});
  }
  instr.Write(0, Bytes{0, repeats * lanes / 8});
  instr.CountRepeats(repeats);
  uint8_t* dst = instr.Data<uint8_t>(0);
  for (uint64_t repeat = 0; repeat < repeats; ++repeat) {
    bool flags[128];
    CompareRepeat(call, source[0], count > 2 ? &source[1] : nullptr, repeat, lanes, flags);
    PackBits(flags, lanes, dst + repeat * lanes / 8);
  }
}

void RunCompareToRegister(const CompareCall& call, const MaskArgument& mask,
                          std::initializer_list<Operand> operands,
                          std::initializer_list<Strides> strides) {
  Instr instr(call.name, PIPE_V, call.where, operands);
  CheckMode(instr, call);
  const uint32_t width = operands.begin()->element;
  const Plan plan = MakePlan(instr, mask, kRepeatBytes / width);
  LaneOperand source[2];
  for (int i = 0; i < 2; ++i) {
    instr.InMemory(i, {Hardware::UB});
    source[i] = LaneOperand(instr, i, width, plan, strides.begin()[i], false);
  }
  if (plan.empty()) return;
  instr.Check(plan.repeats() == 1, "the register holds one repeat, the mask asks for %llu",
              static_cast<unsigned long long>(plan.repeats()));
  for (const LaneOperand& each : source) each.Read(instr);
  instr.CountRepeats(1);
  Registers& registers = instr.core().registers;
  for (uint32_t lane = 0; lane < plan.lanes; ++lane) {
    if (plan.whole != 0 ? !plan.active(lane) : lane >= plan.tail) continue;
    bool holds;
    call.function(source[0].At(0, lane), source[1].At(0, lane), call.scalar, 1, &holds);
    const uint64_t bit = uint64_t{1} << (lane & 63);
    uint64_t& word = registers.compare_mask[lane >> 6];
    word = holds ? word | bit : word & ~bit;
  }
  registers.compare_mask_set = true;
}

void RunGetCmpMask(const Where& where, const Operand& dst) {
  Instr instr("GetCmpMask", PIPE_V, where, {dst});
  instr.InMemory(0, {Hardware::UB});
  const Registers& registers = instr.core().registers;
  instr.Check(registers.compare_mask_set, "no Compare has written CMPMASK");
  instr.Check(dst.local->bytes >= 128, "dst has %u bytes, it needs 128", dst.local->bytes);
  instr.Write(0, Bytes{0, kRegisterBytes}, kRegisterBytes);
  std::memcpy(instr.Data<uint8_t>(0), registers.compare_mask, kRegisterBytes);
}

void RunSetCmpMask(const Where& where, const Operand& src) {
  Instr instr("SetCmpMask", PIPE_V, where, {src});
  instr.InMemory(0, {Hardware::UB});
  instr.Read(0, Bytes{0, kRegisterBytes}, kRegisterBytes);
  Registers& registers = instr.core().registers;
  std::memcpy(registers.compare_mask, instr.Data<uint8_t>(0), kRegisterBytes);
  registers.compare_mask_set = true;
}

}  // namespace twin
