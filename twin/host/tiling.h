// Calls the operator's tiling function for a call.
#pragma once

#include <string>

#include "twin/host/executor.h"
#include "twin/host/op_spec.h"

namespace twin {

// Appends the value of an attribute, or its default where the caller may leave it out with null.
void AppendAttr(const AttrSpec& spec, int64_t value, gert::RuntimeAttrs* attrs);
void AppendAttr(const AttrSpec& spec, double value, gert::RuntimeAttrs* attrs);
void AppendAttr(const AttrSpec& spec, bool value, gert::RuntimeAttrs* attrs);
void AppendAttr(const AttrSpec& spec, const char* value, gert::RuntimeAttrs* attrs);
void AppendAttr(const AttrSpec& spec, const aclIntArray* value, gert::RuntimeAttrs* attrs);
void AppendAttr(const AttrSpec& spec, const aclFloatArray* value, gert::RuntimeAttrs* attrs);
void AppendAttr(const AttrSpec& spec, const aclBoolArray* value, gert::RuntimeAttrs* attrs);

struct TilingStatus {
  aclnnStatus code = ACL_SUCCESS;
  std::string what;
};

// `node` has the attributes already; the tensors are added to it.
TilingStatus RunTiling(const OpSpec& spec, const aclOpExecutor& executor,
                       gert::ComputeNodeInfo* node, Tiled* tiled);

}  // namespace twin
