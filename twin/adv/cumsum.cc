#include "twin/adv/cumsum.h"

#include <vector>

#include "twin/adv/work_space.h"
#include "twin/vector/mask.h"

namespace twin {
namespace {

enum Index { kDst, kSrc, kLast };

// The element that `at` is added to, or -1.
int64_t Before(const CumSumCall& call, uint64_t at) {
  const uint64_t inner = call.info.inner;
  if (call.config.isLastAxis) return at % inner == 0 ? -1 : static_cast<int64_t>(at) - 1;
  return at < inner ? -1 : static_cast<int64_t>(at - inner);
}

template <typename T>
void Accumulate(const CumSumCall& call, const Instr& instr) {
  const uint64_t count = uint64_t{call.info.outter} * call.info.inner;
  const T* from = instr.Data<T>(kSrc);
  std::vector<float> sums(count);
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t before = Before(call, i);
    sums[i] = static_cast<float>(from[i]);
    if (before >= 0) sums[i] = sums[before] + sums[i];
  }
  T* to = instr.Data<T>(kDst);
  for (uint64_t i = 0; i < count; ++i) to[i] = static_cast<T>(sums[i]);
  if (!call.config.outputLastRow) return;
  T* last = instr.Data<T>(kLast);
  for (uint64_t i = 0; i < call.info.inner; ++i) last[i] = to[count - call.info.inner + i];
}

void CarryAccumulated(Instr& instr, const CumSumCall& call) {
  const uint64_t width = instr.operand(kSrc).element, inner = call.info.inner;
  const uint64_t count = call.info.outter * inner;
  instr.OnImages([&] {
    for (uint64_t i = 0; i < count; ++i) {
      const int64_t before = Before(call, i);
      const bool lacks = Lacks(instr.Data<uint8_t>(kSrc) + i * width, width) ||
                         (before >= 0 && Lacks(instr.Data<uint8_t>(kDst) + before * width, width));
      SetLacks(instr.Data<uint8_t>(kDst) + i * width, width, lacks);
      if (call.config.outputLastRow && i + inner >= count) {
        SetLacks(instr.Data<uint8_t>(kLast) + (i + inner - count) * width, width, lacks);
      }
    }
  });
}

void CheckCall(const CumSumCall& call, uint64_t width) {
  const AscendC::CumSumInfo& info = call.info;
  if (info.outter == 0 || info.inner == 0 || info.inner * width % kBlockBytes != 0) {
    Fail("CumSum", call.where,
         Format("cumSumInfo is (%u, %u), expected rows of a multiple of 32 bytes, and no 0",
                info.outter, info.inner));
  }
}

}  // namespace

uint32_t CumSumSpace(const AscendC::CumSumInfo& info, uint32_t width, bool last_axis) {
  // Both ways of the transposition of 16 rows, and of half the sums in float.
  const uint32_t wide = width == sizeof(float) ? 0 : sizeof(half);
  if (last_axis) return 16 * info.inner * (2 * width + wide);
  return width == sizeof(float) ? 0 : info.outter * info.inner * sizeof(float);
}

void RunCumSum(const CumSumCall& call, const Operand& dst, const Operand& last, const Operand& src,
               const Operand& tmp) {
  CheckCall(call, src.element);
  EnterLibrary("CumSum", call.where);
  Instr instr("CumSum", PIPE_V, call.where, {dst, src});
  const uint64_t width = src.element, row = call.info.inner * width;
  const Bytes all{0, call.info.outter * row};
  const uint32_t space = CumSumSpace(call.info, src.element, call.config.isLastAxis);
  for (int i : {kDst, kSrc}) instr.InMemory(i, {Hardware::UB});
  if (call.config.outputLastRow) {
    instr.SetOperand(kLast, last);
    instr.InMemory(kLast, {Hardware::UB});
    instr.CheckDisjoint(kDst, all, kLast, Bytes{0, row});
    instr.CheckDisjoint(kSrc, all, kLast, Bytes{0, row});
  }
  instr.Carries(kSrc);
  instr.Read(kSrc, all);
  const int shared = call.config.outputLastRow ? kLast + 1 : kLast;
  if (tmp.local != nullptr) {
    instr.SetOperand(shared, tmp);
    instr.InMemory(shared, {Hardware::UB});
    instr.CheckDisjoint(kDst, all, shared, Bytes{0, space});
    instr.CheckDisjoint(kSrc, all, shared, Bytes{0, space});
  }
  TakeWorkSpace(instr, tmp.local != nullptr ? shared : -1, space);
  instr.Write(kDst, all);
  if (call.config.outputLastRow) instr.Write(kLast, Bytes{0, row});
  instr.CountRepeats(call.info.outter * CeilDivide(row, kRepeatBytes));
  if (width == sizeof(half)) {
    Accumulate<half>(call, instr);
  } else {
    Accumulate<float>(call, instr);
  }
  if (instr.missing()) CarryAccumulated(instr, call);
}

}  // namespace twin
