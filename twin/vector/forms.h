// The three forms that most vector APIs have: mask bits, mask, count.
#pragma once

#include "twin/device/tensor.h"
#include "twin/vector/lanes.h"
#include "twin/vector/params.h"

#define TWIN_EXPAND(...) __VA_ARGS__

// Refuses to compile a pair of data types that the instruction does not take.
#define TWIN_DTYPE_PAIRS(instruction, Dst, Src, Legal, text) \
  static_assert(Legal<Dst, Src>, instruction                 \
                " does not take these data types (dst/src) on dav-c220; it takes " text)

// Name(operands..., mask[] | mask, repeatTime, repeatParams) and Name(operands..., count). Each
// form checks its types and calls Family::Run(name, where, MaskArgument, repeatParams,
// operands...).
//   Legality    static_assert, Legal the same as a condition: it keeps the compiler from reporting
//               what follows from an illegal type
//   CountTypes, CountSet   template parameters of the count form, whether it sets the mask
#define TWIN_FORMS(Name, Legality, Legal, Types, CountTypes, CountSet, Signature, Arguments, Word, \
                   Repeat, Params, Family)                                                         \
  template <TWIN_EXPAND Types, bool isSetMask = true>                                              \
  void Name(TWIN_EXPAND Signature, Word mask[], Repeat repeatTime, const Params& repeatParams,     \
            twin::Where where = twin::Here()) {                                                    \
    Legality;                                                                                      \
    if constexpr (TWIN_EXPAND Legal) {                                                             \
      TWIN_EXPAND Family::Run(#Name, where, twin::MaskArgument::Bits(mask, repeatTime, isSetMask), \
                              repeatParams, TWIN_EXPAND Arguments);                                \
    }                                                                                              \
  }                                                                                                \
  template <TWIN_EXPAND Types, bool isSetMask = true>                                              \
  void Name(TWIN_EXPAND Signature, uint64_t mask, Repeat repeatTime, const Params& repeatParams,   \
            twin::Where where = twin::Here()) {                                                    \
    Legality;                                                                                      \
    if constexpr (TWIN_EXPAND Legal) {                                                             \
      TWIN_EXPAND Family::Run(#Name, where,                                                        \
                              twin::MaskArgument::First(mask, repeatTime, isSetMask),              \
                              repeatParams, TWIN_EXPAND Arguments);                                \
    }                                                                                              \
  }                                                                                                \
  template <TWIN_EXPAND CountTypes>                                                                \
  void Name(TWIN_EXPAND Signature, const int32_t& count, twin::Where where = twin::Here()) {       \
    Legality;                                                                                      \
    if constexpr (TWIN_EXPAND Legal) {                                                             \
      TWIN_EXPAND Family::Run(#Name, where, twin::MaskArgument::Count(count, CountSet), Params(),  \
                              TWIN_EXPAND Arguments);                                              \
    }                                                                                              \
  }
