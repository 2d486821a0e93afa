#include "twin/adv/select_bytes.h"

#include <algorithm>
#include <vector>

#include "twin/adv/work_space.h"
#include "twin/vector/compare.h"

namespace twin {
namespace {

enum Index { kDst, kSrc, kMask, kTmp };

uint32_t AlignUp(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

void CheckShape(const Instr& instr, const AscendC::SelectWithBytesMaskShapeInfo& info) {
  const uint32_t width = instr.operand(kSrc).element, mask_width = instr.operand(kMask).element;
  instr.Check(info.firstAxis != 0 && info.srcLastAxis * width % kBlockBytes == 0,
              "srcLastAxis is %u, rows have to fill blocks of 32 bytes", info.srcLastAxis);
  instr.Check(info.maskLastAxis % 16 == 0 && info.maskLastAxis * mask_width % kBlockBytes == 0,
              "maskLastAxis is %u, it has to be a multiple of 16 and fill blocks of 32 bytes",
              info.maskLastAxis);
  instr.Check(info.maskLastAxis >= info.srcLastAxis,
              "maskLastAxis is %u, less than srcLastAxis, %u", info.maskLastAxis, info.srcLastAxis);
  const auto size = [&](int operand, const char* axis, uint32_t last) {
    const uint32_t elements = instr.operand(operand).local->bytes / instr.operand(operand).element;
    instr.Check(uint64_t{info.firstAxis} * last == elements,
                "firstAxis * %s is %llu, but %s has %u elements", axis,
                static_cast<unsigned long long>(uint64_t{info.firstAxis} * last),
                instr.operand(operand).role, elements);
  };
  size(kSrc, "srcLastAxis", info.srcLastAxis);
  size(kMask, "maskLastAxis", info.maskLastAxis);
}

}  // namespace

uint32_t SelectBytesSpace(uint32_t elements, bool same_axis, uint32_t mask_width, bool reuse_mask,
                          bool most) {
  constexpr uint32_t kPass = 4096;  // elements
  const uint32_t pass = most ? elements : std::min(elements, kPass);
  uint32_t bytes = std::max(1024u, AlignUp(pass, 32) * 2 + 512);
  if (!same_axis && !reuse_mask) bytes += AlignUp(elements * mask_width, kBlockBytes);
  return bytes;
}

void RunSelectBytes(const SelectBytesCall& call, const Operand& dst, const Operand& src,
                    const Operand& mask, const Operand& tmp) {
  EnterLibrary(call.name, call.where);
  Instr instr(call.name, PIPE_V, call.where, {dst, src, mask, tmp});
  for (int i : {kDst, kSrc, kMask, kTmp}) instr.InMemory(i, {Hardware::UB});
  CheckShape(instr, call.info);
  LocalView scratch;
  UseSelectScratch(&instr, kTmp + 1, &scratch);
  const uint64_t rows = call.info.firstAxis, columns = call.info.srcLastAxis;
  const uint64_t mask_columns = call.info.maskLastAxis;
  const Bytes data{0, rows * columns * src.element};
  const Bytes selection{0, rows * mask_columns * mask.element};
  const bool same_axis = columns == mask_columns;
  const Bytes space{0, SelectBytesSpace(static_cast<uint32_t>(rows * columns), same_axis,
                                        mask.element, call.reuse_mask, false)};
  if (instr.Data<uint8_t>(kDst) != instr.Data<uint8_t>(kSrc)) {
    instr.CheckDisjoint(kDst, data, kSrc, data);
  }
  instr.CheckDisjoint(kDst, data, kMask, selection);
  instr.CheckDisjoint(kDst, data, kTmp, space);
  instr.CheckDisjoint(kSrc, data, kTmp, space);
  instr.CheckDisjoint(kMask, selection, kTmp, space);
  instr.Carries(kSrc);
  instr.Read(kSrc, data);
  instr.Read(kMask, selection);
  TakeWorkSpace(instr, kTmp, space.count);
  instr.Write(kDst, data);
  instr.CountRepeats((data.count + kRepeatBytes - 1) / kRepeatBytes);
  const uint8_t* from = instr.Data<uint8_t>(kSrc);
  uint8_t* to = instr.Data<uint8_t>(kDst);
  const uint8_t* masks = instr.Data<uint8_t>(kMask);
  std::vector<bool> kept(instr.missing() ? rows * columns : 0);
  for (uint64_t i = 0; i < rows * columns; ++i) {
    const uint8_t* flag = masks + (i / columns * mask_columns + i % columns) * mask.element;
    const bool second = std::any_of(flag, flag + mask.element, [](uint8_t b) { return b != 0; });
    const uint8_t* scalar = reinterpret_cast<const uint8_t*>(&call.scalar);
    const bool keeps = second == call.scalar_first;
    if (!kept.empty()) kept[i] = keeps;
    std::memmove(to + i * src.element, keeps ? from + i * src.element : scalar, src.element);
  }
  if (!kept.empty()) CarryKept(instr, kDst, kSrc, kept);
  // The mask is cut to the source's columns in place.
  if (!same_axis && call.reuse_mask) {
    instr.Write(kMask, selection);
    instr.Scramble(kMask, selection);
  }
}

}  // namespace twin
