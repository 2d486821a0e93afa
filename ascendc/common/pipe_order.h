// Orders two pipes where a TBuf, which has no queue, is handed from one to the other.
#pragma once

#include "kernel_operator.h"

namespace nsa::ascend {

// Makes the destination pipe of `event` wait for all earlier work of its source pipe.
template <AscendC::HardEvent event>
__aicore__ inline void Order() {
  const event_t id = static_cast<event_t>(GetTPipePtr()->FetchEventID(event));
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

}  // namespace nsa::ascend
