// A kernel's precondition, met or broken as the argument says: with NSA_CHECK_PRECONDITIONS a
// broken one must stop the program.
#define NSA_ISA_SCALAR
#include <cstdlib>

#include "cpu/engine/simd/vec.h"

int main(int, char** argv) {
  nsa::cpu::expect<nsa::cpu::Length::kPadded>(std::atoi(argv[1]));
  return 0;
}
