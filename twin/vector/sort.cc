#include "twin/vector/sort.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "twin/vector/gather.h"

namespace twin {
namespace {

using AscendC::MrgSort4Info;

// A score as it sorts: a NaN goes before everything.
float ScoreAt(const uint8_t* pair, uint32_t width) {
  float score;
  if (width == 2) {
    uint16_t bits;
    std::memcpy(&bits, pair, 2);
    score = HalfBitsToFloat(bits);
  } else {
    std::memcpy(&score, pair, 4);
  }
  return std::isnan(score) ? INFINITY : score;
}

}  // namespace

bool IsNanScore(const uint8_t* pair, uint32_t width) {
  if (width == 2) {
    uint16_t bits;
    std::memcpy(&bits, pair, 2);
    return (bits & 0x7fff) > 0x7c00;
  }
  float score;
  std::memcpy(&score, pair, 4);
  return std::isnan(score);
}

bool SortsBefore(const uint8_t* a, const uint8_t* b, uint32_t width) {
  const bool a_nan = IsNanScore(a, width), b_nan = IsNanScore(b, width);
  if (a_nan || b_nan) return a_nan && !b_nan;
  return ScoreAt(a, width) > ScoreAt(b, width);
}

namespace {

struct Merge {
  std::vector<uint8_t> pairs;
  uint16_t taken[4] = {0, 0, 0, 0};
};

// The one in the earlier list comes first of equal scores.
Merge MergeLists(const uint8_t* const lists[4], const uint16_t lengths[4], int count, bool suspend,
                 uint32_t width) {
  Merge merge;
  for (;;) {
    int next = -1;
    bool exhausted = false;
    for (int i = 0; i < count; ++i) {
      if (merge.taken[i] == lengths[i]) {
        exhausted = true;
        continue;
      }
      const uint8_t* head = lists[i] + kPairBytes * merge.taken[i];
      if (next < 0 || SortsBefore(head, lists[next] + kPairBytes * merge.taken[next], width))
        next = i;
    }
    if (next < 0 || (suspend && exhausted)) return merge;
    const uint8_t* pair = lists[next] + kPairBytes * merge.taken[next]++;
    merge.pairs.insert(merge.pairs.end(), pair, pair + kPairBytes);
  }
}

// Reads and writes of pairs; the reserved half word of a pair of halves holds nothing.
void ReadPairs(Instr& instr, int operand, uint64_t begin, uint64_t pairs, uint32_t width,
               uint32_t align) {
  if (width == 4) {
    instr.Read(operand, Bytes{begin, kPairBytes * pairs}, align);
    return;
  }
  instr.Read(operand, Rows{begin, pairs, 2, kPairBytes}, align);
  instr.Read(operand, Rows{begin + 4, pairs, 4, kPairBytes}, 0);
}

int ListCount(const Instr& instr, const MrgSort4Info& info) {
  instr.Check(info.validBit == 3 || info.validBit == 7 || info.validBit == 15,
              "validBit is %u, it has to be 3, 7 or 15", info.validBit);
  return info.validBit == 3 ? 2 : info.validBit == 7 ? 3 : 4;
}

void CheckRepeated(const Instr& instr, const MrgSort4Info& info, const Operand (&lists)[4],
                   int count) {
  const uint16_t* n = info.elementLengths;
  bool contiguous = true, equal = true;
  for (int i = 1; i < count; ++i) {
    equal = equal && n[i] == n[0];
    contiguous = contiguous && lists[i].local->address ==
                                   lists[i - 1].local->address + kPairBytes * uint32_t{n[i - 1]};
  }
  instr.Check(count == 4 && equal && contiguous && !info.ifExhaustedSuspension,
              "repeatTimes is %lld; more than one repeat needs four lists of one length, side by "
              "side, validBit 15 and no exhausted suspension",
              static_cast<long long>(info.repeatTimes.wide()));
}

}  // namespace

void RunSort32(const Where& where, const Operand& dst, const Operand& scores,
               const Operand& indices, int64_t repeats) {
  Instr instr("Sort32", PIPE_V, where, {dst, scores, indices});
  for (int i = 0; i < 3; ++i) instr.InMemory(i, {Hardware::UB});
  instr.Check(repeats >= 0 && repeats <= 255, "repeatTime is %lld, it has to be 0 to 255",
              static_cast<long long>(repeats));
  if (repeats == 0) return;
  const uint32_t width = scores.element;
  const uint64_t count = static_cast<uint64_t>(repeats);
  const Bytes out{0, count * kSortRun * kPairBytes}, in{0, count * kSortRun * width},
      index_bytes{0, count * kSortRun * 4};
  instr.CheckDisjoint(0, out, 1, in);
  instr.CheckDisjoint(0, out, 2, index_bytes);
  instr.Read(1, in);
  instr.Read(2, index_bytes);
  instr.Write(0, out);
  instr.CountRepeats(count);
  for (uint64_t r = 0; r < count; ++r) {
    const uint8_t* s = instr.Data<uint8_t>(1) + r * kSortRun * width;
    const uint8_t* index = instr.Data<uint8_t>(2) + r * kSortRun * 4;
    uint8_t* pair = instr.Data<uint8_t>(0) + r * kSortRun * kPairBytes;
    uint32_t order[kSortRun];
    std::iota(order, order + kSortRun, 0);
    std::stable_sort(order, order + kSortRun, [&](uint32_t a, uint32_t b) {
      return SortsBefore(s + a * width, s + b * width, width);
    });
    for (uint32_t i : order) {
      std::memset(pair, 0, 4);
      std::memcpy(pair, s + i * width, width);
      std::memcpy(pair + 4, index + 4 * i, 4);
      pair += kPairBytes;
    }
  }
}

void RunMrgSort(const Where& where, const Operand& dst, const Operand (&lists)[4],
                const MrgSort4Info& info) {
  Instr instr("MrgSort", PIPE_V, where, {dst, lists[0], lists[1], lists[2], lists[3]});
  const int count = ListCount(instr, info);
  const uint32_t width = dst.element;
  const int64_t repeats = info.repeatTimes.wide();
  instr.Check(repeats >= 0 && repeats <= 255, "repeatTimes is %lld, it has to be 0 to 255",
              static_cast<long long>(repeats));
  instr.InMemory(0, {Hardware::UB});
  uint64_t total = 0;
  for (int i = 0; i < count; ++i) {
    instr.InMemory(i + 1, {Hardware::UB});
    instr.Check(info.elementLengths[i] <= 4095, "elementLengths[%d] is %u, it has to be 0 to 4095",
                i, info.elementLengths[i]);
    total += info.elementLengths[i];
  }
  if (repeats == 0 || total == 0) return;
  if (repeats > 1) CheckRepeated(instr, info, lists, count);
  const uint64_t times = static_cast<uint64_t>(repeats);
  for (int i = 0; i < count; ++i) {
    const uint64_t pairs = repeats > 1 ? 0 : info.elementLengths[i];
    if (pairs == 0) continue;
    instr.CheckDisjoint(0, Bytes{0, total * kPairBytes}, i + 1, Bytes{0, pairs * kPairBytes});
    ReadPairs(instr, i + 1, 0, pairs, width, kPairBytes);
  }
  if (repeats > 1) {
    const uint64_t bytes = times * total * kPairBytes;
    instr.CheckDisjoint(0, Bytes{0, bytes}, 1, Bytes{0, bytes});
    ReadPairs(instr, 1, 0, times * total, width, kPairBytes);
  }
  instr.CountRepeats(times);
  Registers& registers = instr.core().registers;
  for (uint64_t r = 0; r < times; ++r) {
    const uint64_t skip = r * total * kPairBytes;
    const uint8_t* heads[4];
    for (int i = 0; i < count; ++i) heads[i] = instr.Data<uint8_t>(i + 1) + skip;
    const Merge merge =
        MergeLists(heads, info.elementLengths, count, info.ifExhaustedSuspension, width);
    instr.Write(0, Bytes{skip, merge.pairs.size()}, skip == 0 ? kBlockBytes : 0);
    std::memcpy(instr.Data<uint8_t>(0) + skip, merge.pairs.data(), merge.pairs.size());
    std::memcpy(registers.merge_sort, merge.taken, sizeof(merge.taken));
  }
  registers.merged_at = instr.core().issued[PipeIndex(PIPE_V)];
}

void ReadMrgSortResult(const Where& where, uint16_t result[4]) {
  const Core& core = ThisCore("GetMrgSortResult", where);
  if (core.registers.merged_at > core.seen[PipeIndex(PIPE_S)][PipeIndex(PIPE_V)]) {
    Fail("GetMrgSortResult", where,
         "MrgSort may still be running: SetFlag and WaitFlag V_S are missing");
  }
  std::memcpy(result, core.registers.merge_sort, sizeof(core.registers.merge_sort));
}

void RunFullSort(const Where& where, const Operand& dst, const Operand& tmp, int64_t repeats) {
  const uint32_t width = dst.element;
  const uint64_t total = static_cast<uint64_t>(repeats) * kSortRun;
  Core& core = ThisCore("Sort", where);
  const auto at = [](const LocalView& view, uint64_t pairs) {
    LocalView part = view;
    part.address += static_cast<uint32_t>(pairs * kPairBytes);
    part.outside = pairs * kPairBytes > view.bytes;
    part.bytes = part.outside ? 0 : view.bytes - static_cast<uint32_t>(pairs * kPairBytes);
    return part;
  };
  for (uint64_t run = kSortRun; run < total; run *= 4) {
    {
      Instr copy("Sort", PIPE_V, where, {tmp, dst});
      ReadPairs(copy, 1, 0, total, width, kBlockBytes);
      copy.Write(0, Bytes{0, total * kPairBytes});
      std::memcpy(copy.Data<uint8_t>(0), copy.Data<uint8_t>(1), total * kPairBytes);
    }
    Order(core, PIPE_V, PIPE_V);
    for (uint64_t begin = 0; begin < total; begin += 4 * run) {
      LocalView views[4];
      uint16_t lengths[4] = {0, 0, 0, 0};
      uint16_t valid = 0;
      for (int i = 0; i < 4; ++i) {
        const uint64_t from = std::min(begin + i * run, total);
        views[i] = at(*tmp.local, from);
        lengths[i] = static_cast<uint16_t>(std::min(run, total - from));
        if (lengths[i] != 0) valid = static_cast<uint16_t>(valid << 1 | 1);
      }
      if (valid == 1) continue;  // one run: it is in place already
      const LocalView to = at(*dst.local, begin);
      const Operand lists[4] = {{"src1", tmp.dtype, width, views[0]},
                                {"src2", tmp.dtype, width, views[1]},
                                {"src3", tmp.dtype, width, views[2]},
                                {"src4", tmp.dtype, width, views[3]}};
      RunMrgSort(where, {"dst", dst.dtype, width, to}, lists,
                 MrgSort4Info(lengths, false, valid, 1));
    }
    Order(core, PIPE_V, PIPE_V);
  }
}

// GatherMask's patterns on the words of the pairs: the score is the first of two words (floats) or
// of four half words, the index the second word.
void RunExtract(const Where& where, const Operand& values, const Operand& indices,
                const Operand& sorted, int64_t repeats) {
  Instr instr("Extract", PIPE_V, where, {values, indices, sorted});
  for (int i = 0; i < 3; ++i) instr.InMemory(i, {Hardware::UB});
  instr.Check(repeats >= 0 && repeats <= 255, "repeatTime is %lld, it has to be 0 to 255",
              static_cast<long long>(repeats));
  if (repeats == 0) return;
  const uint64_t pairs = static_cast<uint64_t>(repeats) * kSortRun;
  const uint32_t width = sorted.element;
  ReadPairs(instr, 2, 0, pairs, width, kBlockBytes);
  instr.CheckDisjoint(0, Bytes{0, pairs * width}, 2, Bytes{0, pairs * kPairBytes});
  instr.CheckDisjoint(1, Bytes{0, pairs * 4}, 2, Bytes{0, pairs * kPairBytes});
  instr.Write(0, Bytes{0, pairs * width});
  instr.Write(1, Bytes{0, pairs * 4});
  instr.CountRepeats(static_cast<uint64_t>(repeats));
  const uint8_t* pair = instr.Data<uint8_t>(2);
  for (uint64_t i = 0; i < pairs; ++i, pair += kPairBytes) {
    std::memcpy(instr.Data<uint8_t>(0) + i * width, pair, width);
    std::memcpy(instr.Data<uint8_t>(1) + i * 4, pair + 4, 4);
  }
}

}  // namespace twin
