// The Ascend operators on the CPU twin, called as a program on a device would call them: through
// the acl runtime and the two phases of their aclnn functions. The twin's library is opened at the
// first call.
#pragma once

#include "binding/op_call.h"

namespace nsa {

extern const Backend kAscendTwinBackend;

}  // namespace nsa
