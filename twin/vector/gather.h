// Gather, Gatherb, GatherMask.
#pragma once

#include "twin/vector/forms.h"

namespace twin {

TWIN_API void RunGather(const Where& where, const MaskArgument& mask, const Operand& dst,
                        const Operand& src, const Operand& offsets, uint64_t base,
                        int64_t dst_repeat);
TWIN_API void RunGatherb(const Where& where, const Operand& dst, const Operand& src,
                         const Operand& offsets, int64_t repeats,
                         const AscendC::GatherRepeatParams& params);

struct GatherMaskCall {
  Where where;
  int pattern;        // 1 to 7, 0: a tensor of bits
  bool counter;       // reduceMode
  uint32_t elements;  // of a repeat, in counter mode
  AscendC::GatherMaskParams params;
};
// operands: dst, src0[, src1Pattern]. Returns the number of elements kept.
TWIN_API uint64_t RunGatherMask(const GatherMaskCall& call,
                                std::initializer_list<Operand> operands);

template <typename T, typename U>
constexpr bool kPatternType =
    std::is_same<U, uint16_t>::value ? sizeof(T) == 2
                                     : std::is_same<U, uint32_t>::value && sizeof(T) == 4;

}  // namespace twin

namespace AscendC {

#define TWIN_GATHER_TYPES(name) \
  TWIN_DTYPES(name, T, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float)

template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src,
            const LocalTensor<uint32_t>& srcOffset, const uint32_t srcBaseOffset,
            const uint64_t mask, const Narrow8 repeatTime, const Narrow16 dstRepStride,
            twin::Where where = twin::Here()) {
  TWIN_GATHER_TYPES("Gather");
  twin::RunGather(where, twin::MaskArgument::First(mask, repeatTime, true), {"dst", dst},
                  {"src", src}, {"srcOffset", srcOffset}, srcBaseOffset, twin::Wide(dstRepStride));
}
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src,
            const LocalTensor<uint32_t>& srcOffset, const uint32_t srcBaseOffset,
            const uint64_t mask[], const Narrow8 repeatTime, const Narrow16 dstRepStride,
            twin::Where where = twin::Here()) {
  TWIN_GATHER_TYPES("Gather");
  twin::RunGather(where, twin::MaskArgument::Bits(mask, repeatTime, true), {"dst", dst},
                  {"src", src}, {"srcOffset", srcOffset}, srcBaseOffset, twin::Wide(dstRepStride));
}
template <typename T>
void Gather(const LocalTensor<T>& dst, const LocalTensor<T>& src,
            const LocalTensor<uint32_t>& srcOffset, const uint32_t srcBaseOffset,
            const uint32_t count, twin::Where where = twin::Here()) {
  TWIN_GATHER_TYPES("Gather");
  twin::RunGather(where, twin::MaskArgument::Count(count), {"dst", dst}, {"src", src},
                  {"srcOffset", srcOffset}, srcBaseOffset, 8);
}

template <typename T>
void Gatherb(const LocalTensor<T>& dst, const LocalTensor<T>& src,
             const LocalTensor<uint32_t>& offset, const Narrow8 repeatTime,
             const GatherRepeatParams& repeatParams, twin::Where where = twin::Here()) {
  TWIN_DTYPES("Gatherb", T, uint16_t, uint32_t);
  twin::RunGatherb(where, {"dst", dst}, {"src", src}, {"offset", offset}, twin::Wide(repeatTime),
                   repeatParams);
}

template <typename T, typename U, GatherMaskMode mode = defaultGatherMaskMode>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0,
                const LocalTensor<U>& src1Pattern, const bool reduceMode, const uint32_t mask,
                const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt,
                twin::Where where = twin::Here()) {
  TWIN_GATHER_TYPES("GatherMask");
  TWIN_DTYPE_PAIRS("GatherMask", T, U, twin::kPatternType,
                   "16-bit/uint16_t and 32-bit/uint32_t (data/src1Pattern)");
  rsvdCnt = twin::RunGatherMask({where, 0, reduceMode, mask, gatherMaskParams},
                                {{"dst", dst}, {"src0", src0}, {"src1Pattern", src1Pattern}});
}
template <typename T, GatherMaskMode mode = defaultGatherMaskMode>
void GatherMask(const LocalTensor<T>& dst, const LocalTensor<T>& src0, const uint8_t src1Pattern,
                const bool reduceMode, const uint32_t mask,
                const GatherMaskParams& gatherMaskParams, uint64_t& rsvdCnt,
                twin::Where where = twin::Here()) {
  TWIN_GATHER_TYPES("GatherMask");
  rsvdCnt = twin::RunGatherMask(
      {where, src1Pattern == 0 ? -1 : src1Pattern, reduceMode, mask, gatherMaskParams},
      {{"dst", dst}, {"src0", src0}});
}

#undef TWIN_GATHER_TYPES

}  // namespace AscendC
