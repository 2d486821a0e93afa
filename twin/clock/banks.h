// Conflicts of banks in UB: 16 groups of 3 banks, of which a group serves one block of 32 bytes in
// a cycle for reading and one for writing, and a bank one in all.
#pragma once

#include "twin/clock/record.h"

namespace twin::clock {

// Cycles more than one for each repeat that the instruction's blocks take, over `repeats` repeats.
uint64_t BankConflicts(const UbAccess* sources, int count, const UbAccess* target,
                       uint64_t repeats);

}  // namespace twin::clock
