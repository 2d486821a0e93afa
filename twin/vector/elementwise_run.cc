#include "twin/vector/elementwise_run.h"

#include <algorithm>

namespace twin {
namespace {

// Add, Sub, Mul, Max, Min (and the ReLU forms) may accumulate into a destination that is the last
// source of the next repeat.
bool Accumulation(const Elementwise& call, const Strides& dst, const Strides& source) {
  return call.accumulates && (dst.repeat == 0 || source.repeat == 0);
}

// Lanes of four bits go in pairs, a byte each.
Plan Pairs(const Instr& instr, const Plan& plan) {
  Plan pairs = plan;
  pairs.lanes = plan.lanes / 2;
  instr.Check(plan.tail % 2 == 0, "the number of elements has to be even, two int4b_t are a byte");
  pairs.tail = plan.tail / 2;
  pairs.mask[0] = pairs.mask[1] = 0;
  for (uint32_t pair = 0; pair < pairs.lanes; ++pair) {
    const bool low = plan.active(2 * pair), high = plan.active(2 * pair + 1);
    instr.Check(low == high, "the mask bits %u and %u differ, two int4b_t are a byte", 2 * pair,
                2 * pair + 1);
    pairs.mask[0] |= static_cast<uint64_t>(low) << pair;
  }
  return pairs;
}

}  // namespace

void RunElementwise(const Elementwise& call, std::initializer_list<Operand> operands,
                    std::initializer_list<Strides> strides) {
  Instr instr(call.name, PIPE_V, call.where, operands);
  if (call.reads_ctrl) instr.ReadsCtrl();
  const Operand* operand = operands.begin();
  const Strides* stride = strides.begin();
  const int count = static_cast<int>(operands.size());

  uint32_t widest = 0;
  for (const Operand& each : operands) widest = std::max(widest, each.element);
  Plan plan = MakePlan(instr, call.mask, kRepeatBytes / widest);
  if (call.four_bits) plan = Pairs(instr, plan);
  LaneOperand lane[3];
  for (int i = 0; i < count; ++i) {
    instr.InMemory(i, {Hardware::UB});
    const uint32_t element = operand[i].element;
    const uint32_t width = call.four_bits && element > 1 ? 2 * element : element;
    // A fill writes the same value wherever its blocks lie.
    lane[i] = LaneOperand(instr, i, width, plan, stride[i], i == 0 && count > 1);
  }
  EndPlan(instr, call.mask);
  if (plan.empty()) return;

  bool accumulates = call.reads_dst, overlaps = false;
  for (int i = 1; i < count; ++i) {
    const bool last = i + 1 == count;
    const bool in_place = call.narrows && lane[0].base() == lane[i].base();
    const bool sums = last && count == 3 && Accumulation(call, stride[0], stride[i]);
    accumulates |= sums;
    if (!sums && !in_place) overlaps |= lane[0].CheckOverlap(instr, lane[i]);
  }
  if (!accumulates && lane[0].RepeatsMeet()) {
    instr.Warn("repeats overwrite each other",
               "with these strides a repeat writes bytes of dst that an earlier one has written");
  }
  for (int i = 0; i < count; ++i) instr.Carries(i);
  for (int i = 1; i < count; ++i) lane[i].Read(instr);
  if (call.reads_dst) lane[0].Read(instr);
  lane[0].Write(instr);
  instr.CountRepeats(plan.repeats());
  const LaneOperand* const a = count > 1 ? &lane[1] : nullptr;
  const LaneOperand* const b = count > 2 ? &lane[2] : nullptr;
  (overlaps ? RunRepeats : RunLanes)(plan, lane[0], a, b, call.scalar, call.function);
  if (instr.missing()) CarryLanes(instr, plan, lane[0], a, b, call.reads_dst, overlaps);
}

}  // namespace twin
