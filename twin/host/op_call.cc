#include "twin/host/op_call.h"

#include "twin/host/call_builder.h"
#include "twin/host/log.h"

namespace twin {

OpCall& OpCall::Input(const char* name, const aclTensor* tensor) {
  inputs_.push_back({name, tensor});
  return *this;
}
OpCall& OpCall::Input(const char* name, const aclIntArray* values) {
  inputs_.push_back({name, values});
  return *this;
}
OpCall& OpCall::Input(const char* name, const aclFloatArray* values) {
  inputs_.push_back({name, values});
  return *this;
}
OpCall& OpCall::Input(const char* name, const aclBoolArray* values) {
  inputs_.push_back({name, values});
  return *this;
}
OpCall& OpCall::Attr(const char* name, int64_t value) {
  attrs_.push_back({name, value});
  return *this;
}
OpCall& OpCall::Attr(const char* name, double value) {
  attrs_.push_back({name, value});
  return *this;
}
OpCall& OpCall::Attr(const char* name, bool value) {
  attrs_.push_back({name, value});
  return *this;
}
OpCall& OpCall::Attr(const char* name, const char* value) {
  attrs_.push_back({name, value});
  return *this;
}
OpCall& OpCall::Attr(const char* name, const aclIntArray* value) {
  attrs_.push_back({name, value});
  return *this;
}
OpCall& OpCall::Attr(const char* name, const aclFloatArray* value) {
  attrs_.push_back({name, value});
  return *this;
}
OpCall& OpCall::Attr(const char* name, const aclBoolArray* value) {
  attrs_.push_back({name, value});
  return *this;
}
OpCall& OpCall::Output(const char* name, const aclTensor* tensor) {
  outputs_.push_back({name, tensor});
  return *this;
}

aclnnStatus OpCall::Prepare(uint64_t* workspace_size, aclOpExecutor** executor) {
  if (workspace_size == nullptr || executor == nullptr) {
    LogError(api_, std::string(workspace_size == nullptr ? "workspaceSize" : "executor") +
                       " must not be null");
    return kAclnnNullptr;
  }
  try {
    auto built = CallBuilder(*this).Build();
    *workspace_size = built->workspace_bytes;
    *executor = built.release();
    AddExecutor(*executor);
    return ACL_SUCCESS;
  } catch (const CallError& error) {
    if (error.what()[0] != '\0') LogError(api_, error.what());
    return error.status;
  } catch (const std::exception& error) {
    LogError(api_, error.what());
    return kAclnnInvalid;
  }
}

}  // namespace twin
