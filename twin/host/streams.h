// Streams: work that is done when somebody waits for it.
#pragma once

#include <functional>

#include "acl/acl_rt.h"
#include "twin/device/where.h"

namespace twin {

// A task's status; another one than ACL_SUCCESS ends the stream's work.
using Task = std::function<aclError()>;

// Appends to a stream, or to the default stream for null. ACL_SUCCESS, or what is wrong with it.
TWIN_API aclError Enqueue(const char* function, aclrtStream stream, Task task);

// ACL_SUCCESS if this thread has a context; else the error, logged.
aclError CheckReady(const char* function);

}  // namespace twin
