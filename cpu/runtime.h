// Runtime settings of the kernels: the instruction set, the number of threads (in
// team.h), scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cpu/engine/threads/team.h"

namespace nsa::cpu {

// Instruction sets of this build that the machine can run, best first: "avx512_amx", "avx512_bf16",
// "avx512", "avx2", "neon", "scalar".
std::vector<std::string> available_isas();

// The one in use: the best, unless MINDSPORE_NSA_ISA or set_isa named another.
std::string isa();

// Throws std::invalid_argument where the name is unknown or the machine lacks the instructions.
void set_isa(const std::string& name);

// Bytes of scratch held by kernels at once, at most, since the last reset.
int64_t scratch_high_water();
void reset_scratch_high_water();

}  // namespace nsa::cpu
