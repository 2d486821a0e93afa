// Tiling: how many blocks run a kernel, with which data, key and workspace.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <deque>
#include <vector>

#include "exe_graph/runtime/extended_kernel_context.h"
#include "exe_graph/runtime/tensor.h"
#include "exe_graph/runtime/tiling_data.h"
#include "graph/error_codes.h"

namespace fe {
class PlatFormInfos;
}

namespace gert {

class TilingContext : public ExtendedKernelContext {
 public:
  // The twin's own. `inputs`: one per input of the definition, null where it is absent.
  struct Call {
    std::deque<const Tensor*> inputs;
    std::deque<StorageShape> outputs;
    const void* compile_info = nullptr;
    fe::PlatFormInfos* platform = nullptr;
    bool deterministic = false;
    TilingData* tiling_data = nullptr;
  };
  TilingContext(const ComputeNodeInfo* node, Call call)
      : ExtendedKernelContext(node), call_(std::move(call)) {}

  // Inputs; null for an absent one.
  const Tensor* GetInputTensor(size_t index) const {
    return index < call_.inputs.size() ? call_.inputs[index] : nullptr;
  }
  const Tensor* GetRequiredInputTensor(size_t ir_index) const { return GetInputTensor(ir_index); }
  const Tensor* GetOptionalInputTensor(size_t ir_index) const { return GetInputTensor(ir_index); }
  const StorageShape* GetInputShape(size_t index) const {
    const Tensor* tensor = GetInputTensor(index);
    return tensor == nullptr ? nullptr : &tensor->GetShape();
  }
  const StorageShape* GetRequiredInputShape(size_t ir_index) const {
    return GetInputShape(ir_index);
  }
  const StorageShape* GetOptionalInputShape(size_t ir_index) const {
    return GetInputShape(ir_index);
  }
  const StorageShape* GetOutputShape(size_t index) const {
    return index < call_.outputs.size() ? &call_.outputs[index] : nullptr;
  }

  const void* GetCompileInfo() const { return call_.compile_info; }
  template <typename T>
  const T* GetCompileInfo() const {
    return static_cast<const T*>(call_.compile_info);
  }
  fe::PlatFormInfos* GetPlatformInfo() const { return call_.platform; }
  int32_t GetDeterministic() const { return call_.deterministic ? 1 : 0; }

  // Results.
  ge::graphStatus SetTilingKey(uint64_t key) {
    tiling_key_ = key;
    return ge::GRAPH_SUCCESS;
  }
  uint64_t GetTilingKey() const { return tiling_key_; }
  ge::graphStatus SetBlockDim(uint32_t blocks) {
    blocks_ = blocks;
    return ge::GRAPH_SUCCESS;
  }
  uint32_t GetBlockDim() const { return blocks_; }
  ge::graphStatus SetSimdNumBlocks(uint32_t blocks) { return SetBlockDim(blocks); }
  uint32_t GetSimdNumBlocks() const { return blocks_; }
  // 1: all blocks of the kernel are resident at once, which a barrier between them needs.
  ge::graphStatus SetScheduleMode(uint32_t mode) {
    schedule_mode_ = mode;
    return ge::GRAPH_SUCCESS;
  }
  uint32_t GetScheduleMode() const { return schedule_mode_; }

  TilingData* GetRawTilingData() { return call_.tiling_data; }
  // Null where the tiling data is longer than its buffer.
  template <typename T>
  T* GetTilingData() {
    if (call_.tiling_data == nullptr || call_.tiling_data->GetCapacity() < sizeof(T))
      return nullptr;
    call_.tiling_data->SetDataSize(sizeof(T));
    return static_cast<T*>(call_.tiling_data->GetData());
  }
  size_t* GetWorkspaceSizes(size_t count) {
    // Room for one, so that a count of 0 gives a pointer too.
    workspaces_.reserve(count + 1);
    workspaces_.resize(count, 0);
    return workspaces_.data();
  }
  size_t GetWorkspaceNum() const { return workspaces_.size(); }

  // The twin's own.
  const std::vector<size_t>& workspaces() const { return workspaces_; }

 private:
  Call call_;
  uint64_t tiling_key_ = 0;
  uint32_t blocks_ = 0;
  uint32_t schedule_mode_ = 0;
  std::vector<size_t> workspaces_;
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
