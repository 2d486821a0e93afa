// ReduceSum, ReduceMax and ReduceMin. CANN builds them from instructions that reduce a repeat, with
// the intermediate results in sharedTmpBuffer and the last step on the scalar unit; so does this.
#include <algorithm>
#include <vector>

#include "twin/device/tensor.h"
#include "twin/vector/reduce_run.h"
#include "twin/vector/reduce_values.h"

namespace twin {
namespace {

using AscendC::ReduceType;

enum { kDst = 0, kSrc = 1, kTmp = 2 };

uint64_t DivCeil(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
uint64_t Blocks(uint64_t bytes) { return DivCeil(bytes, kBlockBytes) * kBlockBytes; }

// The scalar unit stores dst[index] after the vector unit is done; vector and store pipes then wait
// for it.
template <typename T>
void StoreByScalar(Core& core, const Where& where, const Operand& dst, uint64_t index,
                   const T& value) {
  std::memcpy(ScalarWrite(*dst.local, index, dst, where), &value, sizeof(T));
  Order(core, PIPE_S, PIPE_V);
  Order(core, PIPE_S, PIPE_MTE3);
}

// The result that the scalar unit has stored holds no value where a source held none.
void MarkResult(Core& core, const Operand& dst, uint64_t bytes, uint32_t origin) {
  if (origin == 0) return;
  UseMemory(core, Hardware::UB).shadow.MarkMissing(dst.local->address, bytes, origin);
}

void CheckTmp(const Instr& instr, const Operand& tmp, uint64_t needed) {
  instr.Check(tmp.local->bytes >= needed,
              "sharedTmpBuffer has %u bytes, %llu are needed for this number of repeats",
              tmp.local->bytes, static_cast<unsigned long long>(needed));
}

// The count form of ReduceSum: the repeats' sums are added one after the other.
template <typename T>
void SumInSequence(const ReduceAllCall& call, const Operand& dst, const Operand& src) {
  Core* core;
  T total{};
  uint32_t origin = 0;
  {
    Instr instr(call.name, PIPE_V, call.where, {dst, src});
    instr.InMemory(kDst, {Hardware::UB});
    instr.InMemory(kSrc, {Hardware::UB});
    core = &instr.core();
    const Plan plan = MakePlan(instr, call.mask, kRepeatBytes / sizeof(T));
    const LaneOperand source(instr, kSrc, sizeof(T), plan, {1, 8, "", ""}, false);
    EndPlan(instr, call.mask);
    if (plan.empty()) return;
    instr.Carries(kSrc);
    source.Read(instr);
    origin = instr.MissingOrigin();
    instr.CountRepeats(plan.repeats());
    for (uint64_t repeat = 0; repeat < plan.repeats(); ++repeat) {
      const RepeatValues<T> row(plan, source, repeat);
      T sum{};
      if (!TreeSum(row.values, row.active, plan.lanes, &sum)) continue;
      total = repeat == 0 ? sum : total + sum;
    }
  }
  core->registers.accumulated = ScalarBits(total);
  core->registers.accumulated_lacks = origin != 0;
  Order(*core, PIPE_V, PIPE_S);
  StoreByScalar(*core, call.where, dst, 0, total);
  MarkResult(*core, dst, sizeof(T), origin);
}

// One level of a tree over values in sharedTmpBuffer.
template <typename T>
std::vector<T> SumLevel(const std::vector<T>& values) {
  constexpr uint32_t kLanes = kRepeatBytes / sizeof(T);
  std::vector<T> sums;
  for (size_t begin = 0; begin < values.size(); begin += kLanes) {
    T row[kLanes];
    bool active[kLanes];
    for (uint32_t i = 0; i < kLanes; ++i) {
      active[i] = begin + i < values.size();
      row[i] = active[i] ? values[begin + i] : static_cast<T>(0);
    }
    T sum{};
    TreeSum(row, active, kLanes, &sum);
    sums.push_back(sum);
  }
  return sums;
}

// The mask form of ReduceSum: trees over the repeats' sums.
template <typename T>
void SumInTree(const ReduceAllCall& call, const Plan& plan, const LaneOperand& source, Instr& first,
               const Operand& dst, const Operand& tmp) {
  Core& core = first.core();
  CheckTmp(first, tmp, Blocks(plan.whole * sizeof(T)));
  std::vector<T> level;
  for (uint64_t repeat = 0; repeat < plan.whole; ++repeat) {
    const RepeatValues<T> row(plan, source, repeat);
    T sum{};
    TreeSum(row.values, row.active, plan.lanes, &sum);
    level.push_back(sum);
  }
  first.Write(kTmp, Bytes{0, level.size() * sizeof(T)});
  std::memcpy(first.Data<T>(kTmp), level.data(), level.size() * sizeof(T));

  if (level.size() > 1) {
    Order(core, PIPE_V, PIPE_V);
    Instr second(call.name, PIPE_V, call.where, {tmp});
    second.Read(0, Bytes{0, level.size() * sizeof(T)});
    core.registers.counter_mode = false;
    core.registers.mask[0] = level.size();
    core.registers.mask[1] = 0;
    core.registers.mask_kind = kMaskCount;
    level = SumLevel(level);
    second.Write(0, Bytes{0, level.size() * sizeof(T)});
    std::memcpy(second.Data<T>(0), level.data(), level.size() * sizeof(T));
    Order(core, PIPE_V, PIPE_V);
  }
  if (level.size() == 1) {
    Order(core, PIPE_V, PIPE_S);
    StoreByScalar(core, call.where, dst, 0, level[0]);
    return;
  }
  Instr last(call.name, PIPE_V, call.where, {dst, tmp});
  last.Read(1, Bytes{0, level.size() * sizeof(T)});
  last.Write(0, Bytes{0, sizeof(T)}, sizeof(T));
  LanesToMask(level.size(), core.registers.mask);
  core.registers.mask_kind = kMaskLanes;
  *last.Data<T>(0) = SumLevel(level)[0];
}

// Elements of sharedTmpBuffer that hold (value, index) pairs of every round.
uint64_t ExtremeTmp(uint64_t repeats, uint32_t width, bool index) {
  const uint64_t per_repeat = kRepeatBytes / width;
  uint64_t bytes = Blocks(2 * repeats * width);
  if (!index) return bytes;
  for (uint64_t values = 2 * repeats; values > 2;) {
    values = 2 * DivCeil(values, per_repeat);
    bytes += Blocks(values * width);
  }
  return bytes;
}

template <typename T>
void ExtremeOfAll(const ReduceAllCall& call, const Plan& plan, const LaneOperand& source,
                  Instr& first, const Operand& dst, const Operand& tmp) {
  Core& core = first.core();
  const bool larger = call.type == ReduceType::MAX;
  const uint64_t step = kBlockBytes / sizeof(T) * static_cast<uint64_t>(call.src_repeat);
  std::vector<T> pairs;  // value and index of every repeat
  T best{};
  uint64_t best_index = 0;
  for (uint64_t repeat = 0; repeat < plan.repeats(); ++repeat) {
    const RepeatValues<T> row(plan, source, repeat);
    T value{};
    uint32_t lane = 0;
    if (!Extreme(row.values, row.active, plan.lanes, larger, &value, &lane)) continue;
    if (pairs.empty() || (larger ? value > best : value < best)) {
      best = value;
      best_index = repeat * step + lane;
    }
    pairs.push_back(value);
    pairs.push_back(FromScalarBits<T>(lane));
  }
  core.registers.reduce_max_min[0] = ScalarBits(best);
  core.registers.reduce_max_min[1] = best_index;
  core.registers.reduced_at = core.issued[PipeIndex(PIPE_V)];
  first.Check(!call.index || sizeof(T) > 2 || (plan.repeats() - 1) * step + plan.lanes <= 65536,
              "the index may exceed 65535, which is all a half can hold");

  // One repeat with its index goes straight to the destination.
  if (plan.repeats() == 1 && call.index) {
    first.Write(kDst, Bytes{0, 2 * sizeof(T)}, 2 * sizeof(T));
    std::memcpy(first.Data<T>(kDst), pairs.data(), 2 * sizeof(T));
    return;
  }
  // The count form takes the whole repeats, and compares with the rest by the scalar unit.
  const uint64_t rounds_of = plan.tail != 0 && plan.whole != 0 ? plan.whole : plan.repeats();
  const uint64_t tmp_bytes = ExtremeTmp(rounds_of, sizeof(T), call.index);
  CheckTmp(first, tmp, tmp_bytes);
  const uint64_t first_round = 2 * rounds_of * sizeof(T);
  first.Write(kTmp, Bytes{0, first_round});
  std::memcpy(first.Data<T>(kTmp), pairs.data(), first_round);
  if (plan.repeats() > 1) {
    Order(core, PIPE_V, PIPE_V);
    Instr second(call.name, PIPE_V, call.where, {tmp});
    second.Read(0, Bytes{0, first_round});
    const uint64_t begin = call.index ? Blocks(first_round) : 0;
    const uint64_t bytes = std::max<uint64_t>(tmp_bytes - begin, 2 * sizeof(T)) > tmp_bytes - begin
                               ? 0
                               : 2 * sizeof(T);
    if (bytes != 0) {
      second.Write(0, Bytes{begin, bytes});
      T* result = reinterpret_cast<T*>(second.Data<uint8_t>(0) + begin);
      result[0] = best;
    }
  }
  Order(core, PIPE_V, PIPE_S);
  StoreByScalar(core, call.where, dst, 0, best);
  if (call.index) StoreByScalar(core, call.where, dst, 1, FromScalarBits<T>(best_index));
}

template <typename T>
void ReduceAll(const ReduceAllCall& call, const Operand& dst, const Operand& src,
               const Operand& tmp) {
  const bool count_form = call.mask.form == MaskArgument::kCount;
  if (call.type == ReduceType::SUM && count_form) {
    SumInSequence<T>(call, dst, src);
    return;
  }
  Instr instr(call.name, PIPE_V, call.where, {dst, src, tmp});
  for (int operand : {kDst, kSrc, kTmp}) instr.InMemory(operand, {Hardware::UB});
  instr.Check(call.src_repeat >= 0 && call.src_repeat <= 65535,
              "srcRepStride is %lld, it has to be 0 to 65535",
              static_cast<long long>(call.src_repeat));
  instr.Check(call.mask.repeats >= 0, "repeatTime is %lld, it cannot be negative",
              static_cast<long long>(call.mask.repeats));
  // The API cuts what exceeds the 255 repeats of one instruction.
  MaskArgument mask = call.mask;
  mask.repeats = std::min<int64_t>(mask.repeats, 255);
  Plan plan = MakePlan(instr, mask, kRepeatBytes / sizeof(T));
  if (!count_form && !instr.core().registers.counter_mode) {
    plan.whole = static_cast<uint64_t>(call.mask.repeats);
  }
  const LaneOperand source(instr, kSrc, sizeof(T), plan,
                           {1, call.src_repeat, "srcBlkStride", "srcRepStride", 65535, 65535},
                           false);
  EndPlan(instr, call.mask);
  if (plan.empty()) return;
  instr.Carries(kSrc);
  source.Read(instr);
  const uint32_t origin = instr.MissingOrigin();
  instr.CountRepeats(plan.repeats());
  if (call.type == ReduceType::SUM) {
    SumInTree<T>(call, plan, source, instr, dst, tmp);
  } else {
    ExtremeOfAll<T>(call, plan, source, instr, dst, tmp);
    instr.core().registers.reduced_lacks = origin != 0;
  }
  MarkResult(instr.core(), dst, call.index ? 2 * sizeof(T) : sizeof(T), origin);
}

}  // namespace

void RunReduceAll(const ReduceAllCall& call, const Operand& dst, const Operand& src,
                  const Operand& tmp) {
  if (src.element == 2) {
    ReduceAll<half>(call, dst, src, tmp);
  } else {
    ReduceAll<float>(call, dst, src, tmp);
  }
}

}  // namespace twin
