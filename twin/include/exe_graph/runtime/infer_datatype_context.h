// Data types of the outputs from the inputs.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <deque>

#include "exe_graph/runtime/extended_kernel_context.h"
#include "graph/error_codes.h"

namespace gert {

class InferDataTypeContext : public ExtendedKernelContext {
 public:
  // The twin's own.
  explicit InferDataTypeContext(const ComputeNodeInfo* node)
      : ExtendedKernelContext(node), outputs_(node->GetOutputsNum(), ge::DT_UNDEFINED) {}

  ge::DataType GetInputDataType(size_t index) const {
    const CompileTimeTensorDesc* desc = GetInputDesc(index);
    return desc == nullptr ? ge::DT_UNDEFINED : desc->GetDataType();
  }
  ge::DataType GetRequiredInputDataType(size_t ir_index) const {
    return GetInputDataType(ir_index);
  }
  ge::DataType GetOptionalInputDataType(size_t ir_index) const {
    return GetInputDataType(ir_index);
  }
  ge::DataType GetOutputDataType(size_t index) const {
    return index < outputs_.size() ? outputs_[index] : ge::DT_UNDEFINED;
  }
  ge::graphStatus SetOutputDataType(size_t index, ge::DataType dtype) {
    if (index >= outputs_.size()) return ge::GRAPH_FAILED;
    outputs_[index] = dtype;
    return ge::GRAPH_SUCCESS;
  }

 private:
  std::deque<ge::DataType> outputs_;
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
