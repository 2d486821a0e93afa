#include "twin/adv/reduce_axis.h"

#include <algorithm>
#include <vector>

#include "twin/adv/work_space.h"
#include "twin/vector/mask.h"
#include "twin/vector/reduce_values.h"

namespace twin {
namespace {

enum Index { kDst, kSrc, kTmp };

uint32_t AlignUp(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

// The largest power of two that is less than `n`, or 1.
uint32_t PowerBelow(uint32_t n) {
  uint32_t power = 1;
  while (power * 2 < n) power *= 2;
  return power;
}

// Neighbours first inside a repeat, then the sums of repeats in the same way.
template <typename T>
T SumOf(std::vector<T> values) {
  constexpr uint32_t kLanes = kRepeatBytes / sizeof(T);
  bool active[kLanes];
  do {
    std::vector<T> sums;
    for (size_t at = 0; at < values.size(); at += kLanes) {
      T repeat[kLanes] = {};
      const uint32_t n = static_cast<uint32_t>(std::min<size_t>(kLanes, values.size() - at));
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at), n, repeat);
      for (uint32_t i = 0; i < kLanes; ++i) active[i] = i < n;
      T sum;
      TreeSum(repeat, active, kLanes, &sum);
      sums.push_back(sum);
    }
    values = std::move(sums);
  } while (values.size() > 1);
  return values[0];
}

template <typename T>
T Reduced(AscendC::ReduceType type, const std::vector<T>& values) {
  if (type == AscendC::ReduceType::SUM) return SumOf(values);
  const bool larger = type == AscendC::ReduceType::MAX;
  return *(larger ? std::max_element(values.begin(), values.end())
                  : std::min_element(values.begin(), values.end()));
}

template <typename T>
void Reduce(const AxisCall& call, const T* from, T* to) {
  const uint32_t results = call.columns ? call.length : call.rows;
  const uint32_t terms = call.columns ? call.rows : call.length;
  std::vector<T> values(terms);
  for (uint32_t i = 0; i < results; ++i) {
    for (uint32_t j = 0; j < terms; ++j) {
      const uint64_t row = call.columns ? j : i, column = call.columns ? i : j;
      values[j] = from[row * call.pitch + column];
    }
    to[i] = Reduced(call.type, values);
  }
}

void CarryReduced(Instr& instr, const AxisCall& call) {
  const uint64_t width = instr.operand(kSrc).element;
  const uint32_t results = call.columns ? call.length : call.rows;
  const uint32_t terms = call.columns ? call.rows : call.length;
  instr.OnImages([&] {
    for (uint64_t i = 0; i < results; ++i) {
      bool lacks = false;
      for (uint64_t j = 0; j < terms && !lacks; ++j) {
        const uint64_t row = call.columns ? j : i, column = call.columns ? i : j;
        lacks = Lacks(instr.Data<uint8_t>(kSrc) + (row * call.pitch + column) * width, width);
      }
      SetLacks(instr.Data<uint8_t>(kDst) + i * width, width, lacks);
    }
  });
}

}  // namespace

uint32_t SumSpace(uint32_t n, uint32_t width) {
  return AlignUp((n * width + kRepeatBytes - 1) / kRepeatBytes, kBlockBytes / width) * width;
}

uint32_t ReduceAxisSpace(AscendC::ReduceType type, bool columns, uint32_t rows, uint32_t length,
                         uint32_t width, bool reuse_source) {
  if (reuse_source) return 0;
  const uint32_t per_block = kBlockBytes / width, per_repeat = kRepeatBytes / width;
  if (columns) return PowerBelow(rows) * AlignUp(length, per_block) * width;
  if (type == AscendC::ReduceType::SUM) {
    return length <= per_repeat ? 0 : rows * PowerBelow(length) * width;
  }
  if (length <= per_block) return 0;
  return rows * (length < per_repeat ? kBlockBytes : kRepeatBytes);
}

void CheckSumParams(const AscendC::SumParams& params, uint32_t width, const Where& where) {
  const auto check = [&](bool legal, const std::string& message) {
    if (!legal) Fail("Sum", where, message);
  };
  check(params.outter > 0, "outter is 0");
  check(params.n >= 1 && params.n <= params.inner,
        Format("n is %u, expected 1 to inner, %u", params.n, params.inner));
  check(params.inner == AlignUp(params.n * width, kBlockBytes) / width,
        Format("inner is %u, expected n, %u, rounded up to blocks of 32 bytes", params.inner,
               params.n));
}

void CheckReduceShape(const char* name, const uint32_t shape[], bool inner_pad,
                      const Where& where) {
  if (!inner_pad) Fail(name, where, "srcInnerPad is false, dav-c220 takes true");
  if (shape[0] == 0 || shape[1] == 0) {
    Fail(name, where, Format("srcShape is (%u, %u), expected no 0", shape[0], shape[1]));
  }
}

void RunReduceAxis(const AxisCall& call, const Operand& dst, const Operand& src,
                   const Operand& tmp) {
  // It begins without a barrier, and leaves the mask register whole.
  SetMaskMode(false, call.where);
  ResetMaskRegister(call.where);
  Instr instr(call.name, PIPE_V, call.where, {dst, src});
  const uint64_t width = src.element;
  for (int i : {kDst, kSrc}) instr.InMemory(i, {Hardware::UB});
  const uint64_t results = call.columns ? call.length : call.rows;
  const Bytes out{0, results * width}, in{0, uint64_t{call.rows} * call.pitch * width};
  const Rows rows{0, call.rows, call.length * width, call.pitch * width};
  instr.CheckDisjoint(kDst, out, kSrc, in);
  instr.Carries(kSrc);
  instr.Read(kSrc, rows);
  if (tmp.local != nullptr) {
    instr.SetOperand(kTmp, tmp);
    instr.InMemory(kTmp, {Hardware::UB});
    instr.CheckDisjoint(kDst, out, kTmp, Bytes{0, call.space});
    instr.CheckDisjoint(kSrc, in, kTmp, Bytes{0, call.space});
  }
  TakeWorkSpace(instr, tmp.local != nullptr ? kTmp : -1, call.space);
  instr.Write(kDst, out);
  instr.CountRepeats(call.rows * CeilDivide(call.length * width, kRepeatBytes));
  if (width == sizeof(half)) {
    Reduce(call, instr.Data<half>(kSrc), instr.Data<half>(kDst));
  } else {
    Reduce(call, instr.Data<float>(kSrc), instr.Data<float>(kDst));
  }
  if (instr.missing()) CarryReduced(instr, call);
  if (call.reuse_source) {
    instr.Write(kSrc, rows);
    instr.Scramble(kSrc, in);
  }
}

}  // namespace twin
