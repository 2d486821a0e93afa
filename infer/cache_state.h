// The state of a cache, which NsaCacheStep reads and writes. These checks come where the contents
// are there, before anything is written; the rules know shapes and lists.
#pragma once

#include "infer/check.h"
#include "infer/nsa_cache_step.h"

namespace nsa {

// New tokens of each row.
SeqList cache_step_counts(const Context& c);

// Checks that the rows were made for this layer and have room for their tokens.
void check_cache_state(const Context& c, const int64_t* state);

}  // namespace nsa
