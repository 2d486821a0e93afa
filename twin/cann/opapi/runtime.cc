// Functions of libopapi that are no operators: MindSpore calls them around every operator that
// needs large memory of its own in the first phase, of which the twin's have none.
#include "acl/acl_base.h"

extern "C" {

ACL_FUNC_VISIBILITY int InitHugeMemThreadLocal(void*, bool) { return 0; }
ACL_FUNC_VISIBILITY void UnInitHugeMemThreadLocal(void*, bool) {}
ACL_FUNC_VISIBILITY void ReleaseHugeMem(void*, bool) {}

}  // extern "C"
