// For libraries that have an aclnn function under a second name, with arguments of its own.
#pragma once

#include "aclnn/acl_meta.h"
#include "twin/device/where.h"

// The call's function handed it to another, which numbers its tensors otherwise: addresses cannot
// be set by such a number, so the executor will not be made repeatable.
extern "C" TWIN_API void TwinMarkForwarded(aclOpExecutor* executor);
