#include <algorithm>
#include <cstring>
#include <vector>

#include "twin/vector/reduce_run.h"
#include "twin/vector/reduce_values.h"

namespace twin {
namespace {

using AscendC::ReduceOrder;
using AscendC::ReduceType;

// A value, or a value and an index, as ReduceOrder lays them out.
struct Slot {
  uint8_t bytes[8];
  uint32_t size;
};
template <typename T>
Slot MakeSlot(T value, uint32_t lane, ReduceOrder order) {
  Slot slot{{}, 2 * sizeof(T)};
  switch (order) {
    case ReduceOrder::ORDER_VALUE_INDEX:
      std::memcpy(slot.bytes, &value, sizeof(T));
      std::memcpy(slot.bytes + sizeof(T), &lane, sizeof(T));
      break;
    case ReduceOrder::ORDER_INDEX_VALUE:
      std::memcpy(slot.bytes, &lane, sizeof(T));
      std::memcpy(slot.bytes + sizeof(T), &value, sizeof(T));
      break;
    case ReduceOrder::ORDER_ONLY_VALUE:
      std::memcpy(slot.bytes, &value, sizeof(T));
      slot.size = sizeof(T);
      break;
    default:
      std::memcpy(slot.bytes, &lane, 4);
      slot.size = 4;
  }
  return slot;
}

struct DstLayout {
  uint32_t unit;          // bytes of a result
  uint32_t align;         // of the destination's address
  uint64_t pitch;         // from repeat to repeat
  uint64_t repeat_bytes;  // of one repeat's results
};

DstLayout LayoutOf(const ReduceCall& call, uint32_t width) {
  const uint64_t stride = static_cast<uint64_t>(call.dst_repeat);
  switch (call.span) {
    case ReduceSpan::kPair:
      return {width, kBlockBytes, 128 * stride, kRepeatBytes / 2};
    case ReduceSpan::kBlock:
      return {width, 8 * width, 8 * width * stride, 8 * width};
    default: {
      const bool both =
          call.type != ReduceType::SUM && (call.order == ReduceOrder::ORDER_VALUE_INDEX ||
                                           call.order == ReduceOrder::ORDER_INDEX_VALUE);
      const bool index =
          call.type != ReduceType::SUM && call.order == ReduceOrder::ORDER_ONLY_INDEX;
      const uint32_t unit = both ? 2 * width : index ? 4 : width;
      return {unit, unit, unit * stride, unit};
    }
  }
}

struct Result {
  uint64_t offset;
  Slot slot;
};

// Stores results; those that lie side by side are one access.
void Store(Instr& instr, const std::vector<Result>& results, uint32_t align) {
  for (size_t i = 0; i < results.size();) {
    uint64_t end = results[i].offset;
    size_t next = i;
    while (next < results.size() && results[next].offset == end) end += results[next++].slot.size;
    instr.Write(0, Bytes{results[i].offset, end - results[i].offset}, i == 0 ? align : 0);
    i = next;
  }
  for (const Result& result : results) {
    std::memcpy(instr.Data<uint8_t>(0) + result.offset, result.slot.bytes, result.slot.size);
  }
}

// For each part of a repeat that has a result: whether an element that takes part lacks a byte.
// While Data leads to the images.
std::vector<bool> LackingParts(const Instr& instr, const Plan& plan, const LaneOperand& source,
                               uint32_t part) {
  const LaneOperand image = source.OnImage(instr);
  std::vector<bool> lacking;
  for (uint64_t repeat = 0; repeat < plan.repeats(); ++repeat) {
    for (uint32_t begin = 0; begin + part <= plan.lanes; begin += part) {
      bool any = false, lacks = false;
      for (uint32_t lane = begin; lane < begin + part; ++lane) {
        if (repeat < plan.whole ? !plan.active(lane) : lane >= plan.tail) continue;
        any = true;
        lacks |= Lacks(image.At(repeat, lane), image.width());
      }
      if (any) lacking.push_back(lacks);
    }
  }
  return lacking;
}

template <typename T>
void ReduceParts(Instr& instr, const ReduceCall& call, const Plan& plan, const LaneOperand& source,
                 const DstLayout& to) {
  const uint32_t part = call.span == ReduceSpan::kPair    ? 2
                        : call.span == ReduceSpan::kBlock ? kBlockBytes / sizeof(T)
                                                          : plan.lanes;
  const bool sum = call.type == ReduceType::SUM;
  const bool larger = call.type == ReduceType::MAX;
  const ReduceOrder order =
      sum || call.span != ReduceSpan::kRepeat ? ReduceOrder::ORDER_ONLY_VALUE : call.order;
  T best{};
  uint64_t best_index = 0;
  bool any = false;
  // Results are written only after the whole source was read: a destination may lie on it.
  std::vector<Result> results;
  for (uint64_t repeat = 0; repeat < plan.repeats(); ++repeat) {
    const RepeatValues<T> row(plan, source, repeat);
    for (uint32_t p = 0; p < plan.lanes / part; ++p) {
      T value{};
      uint32_t lane = 0;
      const T* values = row.values + p * part;
      const bool* active = row.active + p * part;
      if (!(sum ? TreeSum(values, active, part, &value)
                : Extreme(values, active, part, larger, &value, &lane))) {
        continue;
      }
      results.push_back({repeat * to.pitch + p * to.unit, MakeSlot(value, lane, order)});
      if (!sum && (!any || (larger ? value > best : value < best))) {
        best = value;
        best_index = repeat * plan.lanes + lane;
        any = true;
      }
    }
  }
  Store(instr, results, to.align);
  bool lacks = false;
  if (instr.missing()) {
    instr.OnImages([&] {
      const std::vector<bool> lacking = LackingParts(instr, plan, source, part);
      for (size_t i = 0; i < results.size(); ++i) {
        lacks |= lacking[i];
        SetLacks(instr.Data<uint8_t>(0) + results[i].offset, results[i].slot.size, lacking[i]);
      }
    });
  }
  if (any && call.span == ReduceSpan::kRepeat) {
    Registers& registers = instr.core().registers;
    registers.reduced_lacks = lacks;
    registers.reduce_max_min[0] = 0;
    std::memcpy(&registers.reduce_max_min[0], &best, sizeof(T));
    registers.reduce_max_min[1] = best_index;
    registers.reduced_at = instr.core().issued[PipeIndex(PIPE_V)];
  }
}

void CheckRange(const Instr& instr, const char* name, int64_t value, int64_t limit) {
  instr.Check(value >= 0 && value <= limit, "%s is %lld, it has to be 0 to %lld", name,
              static_cast<long long>(value), static_cast<long long>(limit));
}

}  // namespace

void RunReduce(const ReduceCall& call, const Operand& dst, const Operand& src) {
  Instr instr(call.name, PIPE_V, call.where, {dst, src});
  instr.InMemory(0, {Hardware::UB});
  instr.InMemory(1, {Hardware::UB});
  const uint32_t width = src.element;
  CheckRange(instr, "dstRepStride", call.dst_repeat, 65535);
  const Plan plan = MakePlan(instr, call.mask, kRepeatBytes / width);
  const LaneOperand source(
      instr, 1, width, plan,
      {call.src_block, call.src_repeat, "srcBlkStride", "srcRepStride", 65535, 65535}, false);
  EndPlan(instr, call.mask);
  if (plan.empty()) return;
  instr.Carries(1);
  source.Read(instr);
  instr.CountRepeats(plan.repeats());
  const DstLayout to = LayoutOf(call, width);
  const uint64_t last = plan.repeats() - 1;
  uint64_t src_bytes = 0;
  for (uint32_t lane = 0; lane < plan.lanes; ++lane) {
    if (plan.active(lane)) src_bytes = std::max(src_bytes, source.Offset(last, lane) + width);
  }
  if (instr.Data<uint8_t>(0) != source.base()) {
    instr.CheckDisjoint(0, Bytes{0, last * to.pitch + to.repeat_bytes}, 1, Bytes{0, src_bytes});
  } else {
    // Onto the start of its own source, as CANN's library does it: no result may overtake the
    // repeats that are still to be read.
    const uint64_t step = source.Offset(1, 0);
    instr.Check(
        last == 0 || (to.pitch <= step && to.repeat_bytes <= step),
        "illegal overlap: dst starts at src, but its repeats are %llu bytes apart and those "
        "of src %llu",
        static_cast<unsigned long long>(to.pitch), static_cast<unsigned long long>(step));
  }
  if (width == 2) {
    ReduceParts<half>(instr, call, plan, source, to);
  } else {
    ReduceParts<float>(instr, call, plan, source, to);
  }
}

namespace {

void CheckReduced(const char* name, const Where& where, bool lacks) {
  if (!lacks) return;
  Fail(name, where,
       "uninitialised read: the reduction has taken in bytes that nothing was written to");
}

}  // namespace

uint64_t ReadSum(const Where& where) {
  Core& core = ThisCore("GetReduceRepeatSumSpr", where);
  CheckReduced("GetReduceRepeatSumSpr", where, core.registers.accumulated_lacks);
  return core.registers.accumulated;
}

void ReadExtreme(const Where& where, uint64_t* value, uint64_t* index) {
  Core& core = ThisCore("GetReduceRepeatMaxMinSpr", where);
  if (core.registers.reduced_at > core.seen[PipeIndex(PIPE_S)][PipeIndex(PIPE_V)]) {
    Fail("GetReduceRepeatMaxMinSpr", where,
         "the reduction may still be running: SetFlag and WaitFlag V_S are missing");
  }
  CheckReduced("GetReduceRepeatMaxMinSpr", where, core.registers.reduced_lacks);
  *value = core.registers.reduce_max_min[0];
  *index = core.registers.reduce_max_min[1];
}

}  // namespace twin
