// Reductions: the untyped part. All of them take half or float; sums add in the documented order.
#pragma once

#include "twin/vector/lanes.h"
#include "twin/vector/params.h"

namespace twin {

enum class ReduceSpan : uint8_t { kPair, kBlock, kRepeat };

struct ReduceCall {
  const char* name;
  Where where;
  MaskArgument mask;
  ReduceSpan span;
  AscendC::ReduceType type;
  AscendC::ReduceOrder order;
  int64_t dst_repeat;
  int64_t src_block;
  int64_t src_repeat;
};
TWIN_API void RunReduce(const ReduceCall& call, const Operand& dst, const Operand& src);

// One sum per repeat.
struct RepeatSumCall {
  const char* name;
  Where where;
  MaskArgument mask;
  int64_t dst_repeat;
  int64_t src_block;
  int64_t src_repeat;
};
inline void RunRepeatSum(const RepeatSumCall& call, const Operand& dst, const Operand& src) {
  RunReduce(
      {call.name, call.where, call.mask, ReduceSpan::kRepeat, AscendC::ReduceType::SUM,
       AscendC::ReduceOrder::ORDER_ONLY_VALUE, call.dst_repeat, call.src_block, call.src_repeat},
      dst, src);
}

// ReduceSum, ReduceMax, ReduceMin: everything to one value.
struct ReduceAllCall {
  const char* name;
  Where where;
  MaskArgument mask;  // of one repeat; `repeats` may exceed 255
  AscendC::ReduceType type;
  int64_t src_repeat;
  bool index;
};
TWIN_API void RunReduceAll(const ReduceAllCall& call, const Operand& dst, const Operand& src,
                           const Operand& tmp);

// Results that reductions leave in registers, read by the scalar unit.
TWIN_API uint64_t ReadSum(const Where& where);
TWIN_API void ReadExtreme(const Where& where, uint64_t* value, uint64_t* index);

}  // namespace twin
