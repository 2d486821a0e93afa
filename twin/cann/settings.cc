// The part of the acl runtime that MindSpore's backend asks for and programs for the twin do not:
// settings, priorities, channels for printing, allocators of aclop operators.
#include <string>

#include "acl/acl.h"
#include "twin/cann/refuse.h"

using twin::cann::Refused;

extern "C" {

// MindSpore finds CANN's folder by the file that has this function.
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return aclrtMallocAlign32(devPtr, size, policy);
}

// The call that waits tells what went wrong, with its reason, so nothing is kept for these.
using aclrtExceptionInfoCallback = void (*)(void*);
ACL_FUNC_VISIBILITY aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback) {
  return ACL_SUCCESS;
}

// The first task of a stream that fails ends it: ACL_STOP_ON_FAILURE, which is 1.
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream, uint64_t mode) {
  return mode == 1 ? ACL_SUCCESS
                   : Refused("aclrtSetStreamFailureMode", "mode " + std::to_string(mode));
}

// No task of the twin waits for another process, or for ever.
ACL_FUNC_VISIBILITY aclError aclrtSetOpWaitTimeout(uint32_t) { return ACL_SUCCESS; }
ACL_FUNC_VISIBILITY aclError aclrtSetOpExecuteTimeOut(uint32_t) { return ACL_SUCCESS; }

// 0: deterministic, 1: the same of collective communication. Kernels are so always.
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(int option, int64_t) {
  return option == 0 || option == 1
             ? ACL_SUCCESS
             : Refused("aclrtCtxSetSysParamOpt", "option " + std::to_string(option));
}

ACL_FUNC_VISIBILITY aclError aclrtDeviceGetStreamPriorityRange(int32_t* least, int32_t* greatest) {
  // Streams of the twin have one priority.
  *least = *greatest = 0;
  return ACL_SUCCESS;
}

}  // extern "C"
