// The ways to do a step that the translation unit being compiled has, and which of them an
// operand's type takes. Nothing outside the engine asks for an instruction set.
#pragma once

#include "cpu/engine/step/pack.h"
#ifdef NSA_HAS_BF16_DOT
#include "cpu/engine/step/bf16_dot.h"
#endif
#ifdef NSA_ISA_AMX
#include "cpu/engine/step/amx.h"
#include "cpu/engine/step/pieces.h"
#endif

namespace nsa::cpu {
namespace {

// PathOfBFloat16: what the bf16 type runs on, forward and backward. PathOfPieces: what float32 and
// float16 run on where operands are split, which fits where PathOfPieces::kForm.pieces > 1.
// GradPathOfFloat: what gradients of both run on.
#if defined(NSA_ISA_AMX)
using PathOfBFloat16 = AmxPath;
using PathOfPieces = PiecesPath;
using GradPathOfFloat = SplitScoresPath;
#elif defined(NSA_HAS_BF16_DOT)
using PathOfBFloat16 = DotPath;
using PathOfPieces = FloatPath;
using GradPathOfFloat = FloatPath;
#else
using PathOfBFloat16 = FloatPath;
using PathOfPieces = FloatPath;
using GradPathOfFloat = FloatPath;
#endif

}  // namespace
}  // namespace nsa::cpu
