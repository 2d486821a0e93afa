// Shapes of the outputs from the inputs.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <deque>

#include "exe_graph/runtime/extended_kernel_context.h"
#include "exe_graph/runtime/tensor.h"

namespace gert {

class InferShapeContext : public ExtendedKernelContext {
 public:
  // The twin's own. `inputs`: one per input of the definition, null where it is absent.
  InferShapeContext(const ComputeNodeInfo* node, std::deque<const Tensor*> inputs)
      : ExtendedKernelContext(node), inputs_(std::move(inputs)), outputs_(node->GetOutputsNum()) {}

  // Null for an absent input.
  const Tensor* GetInputTensor(size_t index) const {
    return index < inputs_.size() ? inputs_[index] : nullptr;
  }
  const Tensor* GetRequiredInputTensor(size_t ir_index) const { return GetInputTensor(ir_index); }
  const Tensor* GetOptionalInputTensor(size_t ir_index) const { return GetInputTensor(ir_index); }
  const Shape* GetInputShape(size_t index) const {
    const Tensor* tensor = GetInputTensor(index);
    return tensor == nullptr ? nullptr : &tensor->GetOriginShape();
  }
  const Shape* GetRequiredInputShape(size_t ir_index) const { return GetInputShape(ir_index); }
  const Shape* GetOptionalInputShape(size_t ir_index) const { return GetInputShape(ir_index); }
  Shape* GetOutputShape(size_t index) {
    return index < outputs_.size() ? &outputs_[index] : nullptr;
  }

 private:
  std::deque<const Tensor*> inputs_;
  std::deque<Shape> outputs_;
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
