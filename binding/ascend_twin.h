// The Ascend operators on the CPU twin, called as a program on a device would call them: through
// the acl runtime and the two phases of their aclnn functions.
#pragma once

#include <string>
#include <vector>

#include "binding/op_call.h"

namespace nsa {

// Opens the libraries that these calls need, those that others need first, the operators' own last:
// once, before the first call. Throws std::runtime_error where one cannot be loaded.
void open_ascend_twin(const std::vector<std::string>& libraries);

extern const Backend kAscendTwinBackend;

}  // namespace nsa
