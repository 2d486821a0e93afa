#include "twin/adv/topk.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "twin/adv/work_space.h"
#include "twin/vector/sort.h"

namespace twin {
namespace {

enum Index { kValues, kIndices, kSrc, kSrcIndex, kFinish, kTmp };

uint64_t AlignUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

void CheckTopK(const Instr& instr, const TopKCall& call) {
  const AscendC::TopKInfo& info = call.info;
  instr.Check(info.outter >= 1, "topKInfo.outter is %d, it has to be positive", info.outter);
  instr.Check(info.inner >= 32 && info.inner <= 4096 && info.inner % 32 == 0,
              "topKInfo.inner is %d, it has to be a multiple of 32 up to 4096", info.inner);
  instr.Check(!call.small || info.inner == 32, "topKInfo.inner is %d, TOPK_NSMALL takes 32",
              info.inner);
  instr.Check(info.n >= 1 && info.n <= info.inner, "topKInfo.n is %d, it has to be 1 to inner, %d",
              info.n, info.inner);
  instr.Check(call.k >= 1 && call.k <= info.n, "k is %d, it has to be 1 to n, %d", call.k, info.n);
  instr.Check(call.tiling.allDataSize == info.outter * info.inner &&
                  call.tiling.kAlignFourBytes == static_cast<int32_t>(AlignUp(call.k, 8)),
              "tilling is for %d elements and k up to %d, the call has %d and %d",
              call.tiling.allDataSize, call.tiling.kAlignFourBytes, info.outter * info.inner,
              call.k);
}

}  // namespace

void RunTopK(const TopKCall& call, const Operand& values, const Operand& indices,
             const Operand& src, const Operand& src_index, const Operand& finish,
             const Operand& tmp) {
  EnterLibrary("TopK", call.where);
  Instr instr("TopK", PIPE_V, call.where, {values, indices, src});
  if (call.with_index) instr.SetOperand(kSrcIndex, src_index);
  if (call.with_finish) instr.SetOperand(kFinish, finish);
  if (tmp.local != nullptr) instr.SetOperand(kTmp, tmp);
  for (int i : {kValues, kIndices, kSrc}) instr.InMemory(i, {Hardware::UB});
  CheckTopK(instr, call);

  const uint64_t width = src.element;
  const uint64_t rows = static_cast<uint64_t>(call.info.outter);
  const uint64_t inner = static_cast<uint64_t>(call.info.inner);
  const uint64_t k = static_cast<uint64_t>(call.k);
  const Bytes data{0, rows * inner * width};
  const uint64_t value_pitch = call.small ? k * width : AlignUp(k * width, kBlockBytes);
  const uint64_t index_pitch = call.small ? k * 4 : AlignUp(k * 4, kBlockBytes);
  instr.CheckDisjoint(kValues, Bytes{0, rows * value_pitch}, kSrc, data);
  instr.CheckDisjoint(kIndices, Bytes{0, rows * index_pitch}, kSrc, data);
  instr.CheckDisjoint(kIndices, Bytes{0, rows * index_pitch}, kValues,
                      Bytes{0, rows * value_pitch});
  instr.Read(kSrc, data);
  if (call.with_index) {
    instr.InMemory(kSrcIndex, {Hardware::UB});
    instr.Read(kSrcIndex, Bytes{0, (call.small ? rows : 1) * inner * 4});
  }
  if (call.with_finish) {
    instr.InMemory(kFinish, {Hardware::UB});
    instr.Read(kFinish, Bytes{0, rows});
  }
  const uint32_t space = TopKSpace(static_cast<uint32_t>(inner), static_cast<uint32_t>(rows),
                                   call.with_index, call.small, call.largest);
  if (tmp.local != nullptr) {
    for (int i : {kValues, kIndices, kSrc}) {
      const Bytes bytes =
          i == kSrc ? data : Bytes{0, rows * (i == kValues ? value_pitch : index_pitch)};
      instr.CheckDisjoint(i, bytes, kTmp, Bytes{0, space});
    }
  }
  TakeWorkSpace(instr, tmp.local != nullptr ? kTmp : -1, space);

  // The padding of a row is written with values of no meaning.
  instr.Write(kValues, Bytes{0, rows * value_pitch});
  instr.Write(kIndices, Bytes{0, rows * index_pitch});
  instr.Scramble(kValues, Bytes{0, rows * value_pitch});
  instr.Scramble(kIndices, Bytes{0, rows * index_pitch});
  instr.Write(kValues, Rows{0, rows, k * width, value_pitch});
  instr.Write(kIndices, Rows{0, rows, k * 4, index_pitch});
  instr.CountRepeats(rows * inner / kSortRun);

  std::vector<uint32_t> order(inner);
  for (uint64_t row = 0; row < rows; ++row) {
    const uint8_t* x = instr.Data<uint8_t>(kSrc) + row * inner * width;
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const uint8_t *first = x + a * width, *second = x + b * width;
      const uint32_t bytes = static_cast<uint32_t>(width);
      // A NaN comes first in both directions.
      const bool numbers = !IsNanScore(first, bytes) && !IsNanScore(second, bytes);
      if (!call.largest && numbers) std::swap(first, second);
      return SortsBefore(first, second, bytes);
    });
    const bool finished = call.with_finish && instr.Data<uint8_t>(kFinish)[row] != 0;
    uint8_t* value = instr.Data<uint8_t>(kValues) + row * value_pitch;
    uint8_t* index = instr.Data<uint8_t>(kIndices) + row * index_pitch;
    for (uint64_t i = 0; i < k; ++i) {
      std::memcpy(value + i * width, x + order[i] * width, width);
      int32_t number = static_cast<int32_t>(order[i]);
      if (call.with_index) {
        const uint64_t at = (call.small ? row * inner : 0) + order[i];
        std::memcpy(&number, instr.Data<uint8_t>(kSrcIndex) + at * 4, 4);
      }
      if (finished) number = call.info.n;
      std::memcpy(index + i * 4, &number, 4);
    }
  }
}

}  // namespace twin
