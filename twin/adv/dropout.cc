#include "twin/adv/dropout.h"

#include <vector>

#include "twin/adv/work_space.h"
#include "twin/vector/lanes.h"
#include "twin/vector/mask.h"

namespace twin {
namespace {

using namespace AscendC;

enum Index { kDst, kSrc, kMask, kTmp };

uint32_t ModeOf(const DropOutCall& call) {
  if (call.mode != 0) return call.mode;
  const uint32_t source = call.info.srcLastAxis, mask = call.info.maskLastAxis;
  if (source < mask) return DROPOUT_MODE_BYTE_MISALIGN;
  if (source == mask) return DROPOUT_MODE_BYTE_ALIGN;
  return source == mask * 8 ? DROPOUT_MODE_BIT_ALIGN : DROPOUT_MODE_BIT_MISALIGN;
}

bool Kept(const uint8_t* flags, uint64_t i, bool bits) {
  return bits ? (flags[i / 8] >> (i % 8) & 1) != 0 : flags[i] != 0;
}

template <typename T>
void Drop(const DropOutCall& call, bool bits, const T* from, const uint8_t* mask, T* to) {
  const T factor = static_cast<T>(1.0f / call.keep);
  for (uint64_t row = 0; row < call.info.firstAxis; ++row) {
    const uint8_t* flags = mask + row * call.info.maskLastAxis;
    for (uint64_t i = 0; i < call.info.srcLastAxis; ++i) {
      const uint64_t at = row * call.info.srcLastAxis + i;
      const bool kept = Kept(flags, i, bits);
      to[at] = kept ? static_cast<T>(from[at] * factor) : static_cast<T>(0.0f);
    }
  }
}

}  // namespace

void RunDropOut(const DropOutCall& call, const Operand& dst, const Operand& src,
                const Operand& mask, const Operand& tmp) {
  SetMaskMode(false, call.where);
  ResetMaskRegister(call.where);
  Instr instr("DropOut", PIPE_V, call.where, {dst, src, mask});
  for (int i : {kDst, kSrc, kMask}) instr.InMemory(i, {Hardware::UB});
  const DropOutShapeInfo& info = call.info;
  const uint32_t mode = ModeOf(call);
  const bool bits = mode >= DROPOUT_MODE_BIT_ALIGN;
  const bool padded = mode == DROPOUT_MODE_BYTE_MISALIGN || mode == DROPOUT_MODE_BIT_MISALIGN;
  instr.Check(call.keep > 0 && call.keep < 1, "keepProb is %g, expected between 0 and 1",
              static_cast<double>(call.keep));
  instr.Check(info.firstAxis > 0 && info.srcLastAxis > 0 && info.maskLastAxis > 0,
              "the shape is (%u, %u), of the mask (%u, %u)", info.firstAxis, info.srcLastAxis,
              info.firstAxis, info.maskLastAxis);
  const uint32_t used = bits ? (info.srcLastAxis + 7) / 8 : info.srcLastAxis;
  instr.Check(padded ? used <= info.maskLastAxis : used == info.maskLastAxis,
              "maskLastAxis is %u, in this mode (%u) a row of %u elements has %u bytes of mask",
              info.maskLastAxis, mode, info.srcLastAxis, used);
  instr.Check(!padded || info.maskLastAxis % 2 == 0,
              "maskLastAxis is %u, of a mask with padding it has to be even", info.maskLastAxis);
  const uint64_t width = src.element;
  const Bytes data{0, uint64_t{info.firstAxis} * info.srcLastAxis * width};
  const Bytes flags{0, uint64_t{info.firstAxis} * info.maskLastAxis};
  constexpr uint32_t kSpace = 2 * kRepeatBytes;
  if (instr.Data<uint8_t>(kDst) != instr.Data<uint8_t>(kSrc)) {
    instr.CheckDisjoint(kDst, data, kSrc, data);
  }
  instr.CheckDisjoint(kDst, data, kMask, flags);
  instr.Carries(kSrc);
  instr.Read(kSrc, data);
  instr.Read(kMask, Rows{0, info.firstAxis, used, info.maskLastAxis});
  if (tmp.local != nullptr) {
    instr.SetOperand(kTmp, tmp);
    instr.InMemory(kTmp, {Hardware::UB});
    for (int i : {kDst, kSrc}) instr.CheckDisjoint(i, data, kTmp, Bytes{0, kSpace});
    instr.CheckDisjoint(kMask, flags, kTmp, Bytes{0, kSpace});
  }
  TakeWorkSpace(instr, tmp.local != nullptr ? kTmp : -1, kSpace);
  instr.Write(kDst, data);
  // A selection and a product.
  instr.CountRepeats(2 * CeilDivide(data.count, kRepeatBytes));
  const uint8_t* selected = instr.Data<uint8_t>(kMask);
  if (width == sizeof(half)) {
    Drop(call, bits, instr.Data<half>(kSrc), selected, instr.Data<half>(kDst));
  } else {
    Drop(call, bits, instr.Data<float>(kSrc), selected, instr.Data<float>(kDst));
  }
  if (instr.missing()) {
    std::vector<bool> kept;
    for (uint64_t row = 0; row < info.firstAxis; ++row) {
      for (uint64_t i = 0; i < info.srcLastAxis; ++i) {
        kept.push_back(Kept(selected + row * info.maskLastAxis, i, bits));
      }
    }
    CarryKept(instr, kDst, kSrc, kept);
  }
  // The padding is cut out of the mask in place.
  if (padded) {
    instr.Write(kMask, flags);
    instr.Scramble(kMask, flags);
  }
}

}  // namespace twin
