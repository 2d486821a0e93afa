#include "twin/cann/refuse.h"

#include "twin/host/host_call.h"

namespace twin::cann {

aclError Refused(const char* function, const std::string& what) {
  RefuseCall(function, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
             "MindSpore asked CANN for " + what + ", which the twin does not have");
  return ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
}

}  // namespace twin::cann
