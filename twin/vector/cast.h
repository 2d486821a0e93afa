// Cast, and the scale of its int32_t -> half conversion.
#pragma once

#include "twin/vector/elementwise_run.h"
#include "twin/vector/forms.h"
#include "twin/vector/rounding.h"

namespace twin {

constexpr uint32_t RoundModes(std::initializer_list<RoundMode> modes) {
  uint32_t set = 0;
  for (RoundMode mode : modes) set |= 1u << static_cast<int>(mode);
  return set;
}
constexpr uint32_t kNone = RoundModes({RoundMode::CAST_NONE});
constexpr uint32_t kOdd = RoundModes({RoundMode::CAST_ODD});
constexpr uint32_t kFive =
    RoundModes({RoundMode::CAST_RINT, RoundMode::CAST_FLOOR, RoundMode::CAST_CEIL,
                RoundMode::CAST_ROUND, RoundMode::CAST_TRUNC});

// The round modes of a pair (destination, source); 0: there is no such conversion on dav-c220.
template <typename D, typename S>
constexpr uint32_t kCastModes = 0;
#define TWIN_CAST(Source, Dest, modes) \
  template <>                          \
  constexpr uint32_t kCastModes<Dest, Source> = modes;
TWIN_CAST(int4b_t, half, kNone)
TWIN_CAST(int8_t, half, kNone)
TWIN_CAST(uint8_t, half, kNone)
TWIN_CAST(int16_t, half, kFive | kNone)
TWIN_CAST(int16_t, float, kNone)
TWIN_CAST(half, int4b_t, kFive | kNone)
TWIN_CAST(half, int8_t, kFive | kNone)
TWIN_CAST(half, uint8_t, kFive | kNone)
TWIN_CAST(half, int16_t, kFive)
TWIN_CAST(half, int32_t, kFive)
TWIN_CAST(half, float, kNone)
TWIN_CAST(bfloat16_t, int32_t, kFive)
TWIN_CAST(bfloat16_t, float, kNone)
TWIN_CAST(int32_t, int16_t, kNone)
TWIN_CAST(int32_t, half, kFive | kNone | kOdd)  // the mode has no effect
TWIN_CAST(int32_t, float, kFive | kNone)
TWIN_CAST(int32_t, int64_t, kNone)
TWIN_CAST(float, int16_t, kFive)
TWIN_CAST(float, half, kFive | kNone | kOdd)
TWIN_CAST(float, bfloat16_t, kFive)
TWIN_CAST(float, int32_t, kFive)
TWIN_CAST(float, float, kFive)
TWIN_CAST(float, int64_t, kFive)
TWIN_CAST(int64_t, int32_t, kNone)
TWIN_CAST(int64_t, float, kFive)
#undef TWIN_CAST

template <typename D, typename S>
constexpr bool kCastExists = kCastModes<D, S> != 0;

// Flags that come with the round mode in the scalar of the loops.
struct CastScalar {
  RoundMode mode;
  bool saturate;  // CTRL[48] off, the default
  uint16_t deq_scale;
};

template <typename D, typename S>
D CastOne(S value, const CastScalar& how) {
  if constexpr (std::is_integral<S>::value && std::is_integral<D>::value) {
    using Limits = std::numeric_limits<D>;
    const int64_t wide = value;
    if (sizeof(D) < sizeof(S)) {
      if (wide > static_cast<int64_t>(Limits::max())) return Limits::max();
      if (wide < static_cast<int64_t>(Limits::min())) return Limits::min();
    }
    return static_cast<D>(wide);
  } else if constexpr (std::is_integral<D>::value) {
    return RoundToInteger<D>(static_cast<double>(static_cast<float>(value)), how.mode);
  } else if constexpr (std::is_integral<S>::value && std::is_same<D, float>::value) {
    return RoundToFloat(static_cast<int64_t>(value), how.mode);
  } else if constexpr (std::is_same<S, int32_t>::value) {
    // value / 2^17 * scale * 2^17, in one rounding.
    const double scaled =
        static_cast<double>(value) * static_cast<float>(half::FromBits(how.deq_scale));
    const double rounded = RoundToFormat<half>(scaled, RoundMode::CAST_RINT);
    return half(static_cast<float>(how.saturate ? Saturate<half>(rounded) : rounded));
  } else if constexpr (std::is_integral<S>::value) {
    return half(RoundToFormat<half>(static_cast<double>(value), how.mode));
  } else if constexpr (std::is_same<D, float>::value && std::is_same<S, float>::value) {
    return static_cast<float>(RoundToIntegral(value, how.mode));
  } else if constexpr (std::is_same<D, float>::value) {
    return static_cast<float>(value);
  } else {
    double rounded;
    if (how.mode == RoundMode::CAST_NONE || how.mode == RoundMode::CAST_RINT) {
      rounded = static_cast<float>(D(value));  // the bit-level conversion, to nearest even
    } else {
      rounded = RoundToFormat<D>(static_cast<double>(value), how.mode);
    }
    if (how.saturate) rounded = Saturate<D>(rounded);
    return D(static_cast<float>(rounded));
  }
}

template <typename D, typename S>
void CastLoop(uint8_t* dst, const uint8_t* src, const uint8_t*, uint64_t scalar, size_t n) {
  D* d = reinterpret_cast<D*>(dst);
  const S* s = reinterpret_cast<const S*>(src);
  const CastScalar how = FromScalarBits<CastScalar>(scalar);
  for (size_t i = 0; i < n; ++i) d[i] = CastOne<D>(s[i], how);
}
// Two elements to a byte, the first in the low half.
template <>
inline void CastLoop<half, int4b_t>(uint8_t* dst, const uint8_t* src, const uint8_t*, uint64_t,
                                    size_t bytes) {
  half* d = reinterpret_cast<half*>(dst);
  for (size_t i = 0; i < 2 * bytes; ++i) {
    const int nibble = src[i / 2] >> (4 * (i % 2)) & 15;
    d[i] = nibble > 7 ? nibble - 16 : nibble;
  }
}
template <>
inline void CastLoop<int4b_t, half>(uint8_t* dst, const uint8_t* src, const uint8_t*,
                                    uint64_t scalar, size_t bytes) {
  const half* s = reinterpret_cast<const half*>(src);
  const CastScalar how = FromScalarBits<CastScalar>(scalar);
  for (size_t i = 0; i < bytes; ++i) {
    int pair[2];
    for (int k = 0; k < 2; ++k) {
      const int value = RoundToInteger<int8_t>(static_cast<float>(s[2 * i + k]), how.mode);
      pair[k] = value > 7 ? 7 : value < -8 ? -8 : value;
    }
    dst[i] = static_cast<uint8_t>((pair[0] & 15) | (pair[1] & 15) << 4);
  }
}

struct CastCall {
  Where where;
  MaskArgument mask;
  RoundMode mode;
  uint32_t legal_modes;
  LaneFunction function;
  bool needs_scale = false;
  bool four_bits = false;  // source or destination is int4b_t
};
TWIN_API void RunCast(const CastCall& call, const Operand& dst, const Operand& src,
                      const AscendC::UnaryRepeatParams& params);

template <typename D, typename S>
struct CastFamily {
  static void Run(const Where& where, const MaskArgument& mask,
                  const AscendC::UnaryRepeatParams& params, const AscendC::LocalTensor<D>& dst,
                  const AscendC::LocalTensor<S>& src, RoundMode mode) {
    CastCall call{where, mask, mode, kCastModes<D, S>, &CastLoop<D, S>};
    call.needs_scale = std::is_same<S, int32_t>::value && std::is_same<D, half>::value;
    call.four_bits = std::is_same<S, int4b_t>::value || std::is_same<D, int4b_t>::value;
    RunCast(call, {"dst", dst}, {"src", src}, params);
  }
};

TWIN_API void SetHalfDeqScale(half scale, const Where& where);

}  // namespace twin

namespace AscendC {

#define TWIN_CAST_TYPES                                                                   \
  TWIN_DTYPE_PAIRS("Cast", T, U, twin::kCastExists,                                       \
                   "half from int4b_t, int8_t, uint8_t, int16_t, int32_t, float; "        \
                   "float from half, bfloat16_t, int16_t, int32_t, int64_t, float; "      \
                   "int32_t from half, bfloat16_t, float, int64_t; int16_t from half, "   \
                   "int32_t, float; int64_t from int32_t, float; bfloat16_t from float; " \
                   "int8_t, uint8_t, int4b_t from half")

template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint64_t mask[], const Narrow8 repeatTime, const UnaryRepeatParams& repeatParams,
          twin::Where where = twin::Here()) {
  TWIN_CAST_TYPES;
  if constexpr (twin::kCastExists<T, U>) {
    twin::CastFamily<T, U>::Run(where, twin::MaskArgument::Bits(mask, repeatTime, isSetMask),
                                repeatParams, dst, src, roundMode);
  }
}
template <typename T, typename U, bool isSetMask = true>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint64_t mask, const Narrow8 repeatTime, const UnaryRepeatParams& repeatParams,
          twin::Where where = twin::Here()) {
  TWIN_CAST_TYPES;
  if constexpr (twin::kCastExists<T, U>) {
    twin::CastFamily<T, U>::Run(where, twin::MaskArgument::First(mask, repeatTime, isSetMask),
                                repeatParams, dst, src, roundMode);
  }
}
template <typename T, typename U>
void Cast(const LocalTensor<T>& dst, const LocalTensor<U>& src, const RoundMode& roundMode,
          const uint32_t count, twin::Where where = twin::Here()) {
  TWIN_CAST_TYPES;
  if constexpr (twin::kCastExists<T, U>) {
    twin::CastFamily<T, U>::Run(where, twin::MaskArgument::Count(count), UnaryRepeatParams(), dst,
                                src, roundMode);
  }
}

#undef TWIN_CAST_TYPES

inline void SetDeqScale(half scale, twin::Where where = twin::Here()) {
  twin::SetHalfDeqScale(scale, where);
}

}  // namespace AscendC
