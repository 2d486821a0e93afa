// The stand-in for CANN refuses here what it cannot serve.
#pragma once

#include <string>

#include "acl/acl_base.h"

namespace twin::cann {

// Prints "MindSpore asked CANN for <what> ..." and returns the status of what is not supported.
aclError Refused(const char* function, const std::string& what);

}  // namespace twin::cann
