// The ways to do a step of decoding that the unit being compiled has.
#pragma once

#include "cpu/engine/step/decode_step.h"
#ifdef NSA_HAS_BF16_DOT
#include "cpu/engine/step/decode_dot.h"
#endif
#ifdef NSA_ISA_AMX
#include "cpu/engine/step/decode_tiles.h"
#endif

namespace nsa::cpu {
namespace {

#if defined(NSA_ISA_AMX)
using DecodePathOfBFloat16 = DecodeTiles;
#elif defined(NSA_HAS_BF16_DOT)
using DecodePathOfBFloat16 = DecodePairs;
#else
using DecodePathOfBFloat16 = DecodeBFloat16;
#endif

}  // namespace
}  // namespace nsa::cpu
