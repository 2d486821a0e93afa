// GroupBarrier: AIV cores that wait until a group of others has arrived, round after round.
#pragma once

#include "twin/device/types.h"

namespace twin {

// One core's view of a group: its sizes, and the round that this core is in.
struct Group {
  uint8_t* workspace;
  uint32_t arrive;
  uint32_t wait;
  uint32_t round = 1;
  bool arrived = false;
};
TWIN_API void BeginGroup(const Group& group, const Where& where);
TWIN_API void ArriveAt(Group& group, uint32_t index, const Where& where);
TWIN_API void WaitFor(Group& group, uint32_t index, const Where& where);

}  // namespace twin

namespace AscendC {

enum class PipeMode : uint8_t { SCALAR_MODE = 0, MTE3_MODE = 1, MAX };

template <PipeMode pipeMode>
class GroupBarrier {
  static_assert(pipeMode == PipeMode::MTE3_MODE, "GroupBarrier has MTE3_MODE only");

 public:
  GroupBarrier(GM_ADDR groupWorkspace, uint32_t arriveSizeIn, uint32_t waitSizeIn,
               twin::Where where = twin::Here())
      : group_{(uint8_t*)groupWorkspace, arriveSizeIn, waitSizeIn} {
    twin::BeginGroup(group_, where);
  }
  void Arrive(uint32_t arriveIndex, twin::Where where = twin::Here()) {
    twin::ArriveAt(group_, arriveIndex, where);
  }
  void Wait(uint32_t waitIndex, twin::Where where = twin::Here()) {
    twin::WaitFor(group_, waitIndex, where);
  }
  uint64_t GetWorkspaceLen() {
    return uint64_t{512} * (group_.arrive > group_.wait ? group_.arrive : group_.wait);
  }

 private:
  twin::Group group_;
};

}  // namespace AscendC
