// Every context of an operator's host functions offers this.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "exe_graph/runtime/compute_node_info.h"

namespace gert {

class ExtendedKernelContext {
 public:
  // The twin's own.
  explicit ExtendedKernelContext(const ComputeNodeInfo* node) : node_(node) {}

  const ge::char_t* GetNodeType() const { return node_->GetNodeType(); }
  const ge::char_t* GetNodeName() const { return node_->GetNodeName(); }
  const ComputeNodeInfo* GetComputeNodeInfo() const { return node_; }
  size_t GetComputeNodeInputNum() const { return node_->GetInputsNum(); }
  size_t GetComputeNodeOutputNum() const { return node_->GetOutputsNum(); }
  const RuntimeAttrs* GetAttrs() const { return node_->GetAttrs(); }

  // Null for an absent input.
  const CompileTimeTensorDesc* GetInputDesc(size_t index) const {
    return node_->GetInputTdInfo(index);
  }
  const CompileTimeTensorDesc* GetRequiredInputDesc(size_t ir_index) const {
    return GetInputDesc(ir_index);
  }
  const CompileTimeTensorDesc* GetOptionalInputDesc(size_t ir_index) const {
    return GetInputDesc(ir_index);
  }
  const CompileTimeTensorDesc* GetOutputDesc(size_t index) const {
    return node_->GetOutputTdInfo(index);
  }

 private:
  const ComputeNodeInfo* node_;
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
