// Flags between the cube core of a block and its two vector cores, one id for each slot of each
// buffer that they share. A slot is free again without a flag of its own: who fills it next has
// waited for something that was computed from it.
#pragma once

#include "ascendc/attention/attention_sizes.h"
#include "kernel_operator.h"

namespace nsa::ascend {

enum class Handover : uint16_t {
  kScores = 0,                 // cube to vectors
  kProbabilities = kSlots,     // vectors to cube
  kPartialOutput = 2 * kSlots  // cube to vectors
};
static_assert(static_cast<uint16_t>(Handover::kPartialOutput) + kSlots <= 11,
              "ids from 11 on belong to SyncAll and the Matmul library");

// Both vector cores have to hand over, also the one that had nothing to do.
template <Handover what>
__aicore__ inline void HandOver(int64_t step) {
  constexpr bool from_vectors = what == Handover::kProbabilities;
  AscendC::CrossCoreSetFlag<2, from_vectors ? PIPE_MTE3 : PIPE_FIX>(
      static_cast<uint16_t>(static_cast<uint16_t>(what) + step % kSlots));
}
template <Handover what>
__aicore__ inline void Await(int64_t step) {
  AscendC::CrossCoreWaitFlag(static_cast<uint16_t>(static_cast<uint16_t>(what) + step % kSlots));
}

}  // namespace nsa::ascend
