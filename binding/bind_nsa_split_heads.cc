#include <cstring>

#include "binding/generated/by_hand.h"
#include "cpu/linear/nsa_split_heads.h"

namespace nsa {

void run_nsa_split_heads(const CheckedCall& call) {
  cpu::NsaSplitHeadsParams p{};
  fill_nsa_split_heads(call, p);
  for (int64_t b = p.branches; b < cpu::kMostBranches; ++b) {
    for (void* placeholder : {p.queries[b], p.keys[b], p.values[b]})
      std::memset(placeholder, 0, sizeof(float));
  }
  cpu::nsa_split_heads(p);
}

}  // namespace nsa
