// A call says this of its operator: name, tensors' types and formats, attributes.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <deque>
#include <string>

#include "exe_graph/runtime/runtime_attrs.h"
#include "exe_graph/runtime/storage_format.h"

namespace gert {

class CompileTimeTensorDesc {
 public:
  CompileTimeTensorDesc() = default;
  CompileTimeTensorDesc(ge::DataType dtype, const StorageFormat& format)
      : dtype_(dtype), format_(format) {}

  ge::DataType GetDataType() const { return dtype_; }
  const StorageFormat& GetFormat() const { return format_; }
  ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
  ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }

 private:
  ge::DataType dtype_ = ge::DT_UNDEFINED;
  StorageFormat format_;
};

class ComputeNodeInfo {
 public:
  ComputeNodeInfo(std::string type, std::string name)
      : type_(std::move(type)), name_(std::move(name)) {}

  const ge::char_t* GetNodeType() const { return type_.c_str(); }
  const ge::char_t* GetNodeName() const { return name_.c_str(); }
  // Inputs of the definition; one that is absent keeps its place.
  size_t GetIrInputsNum() const { return inputs_.size(); }
  size_t GetInputsNum() const { return inputs_.size(); }
  size_t GetOutputsNum() const { return outputs_.size(); }
  const CompileTimeTensorDesc* GetInputTdInfo(size_t index) const {
    return index < inputs_.size() && inputs_[index].present ? &inputs_[index].desc : nullptr;
  }
  const CompileTimeTensorDesc* GetOutputTdInfo(size_t index) const {
    return index < outputs_.size() ? &outputs_[index] : nullptr;
  }
  const RuntimeAttrs* GetAttrs() const { return &attrs_; }

  // The twin's own.
  void AddInput(const CompileTimeTensorDesc& desc) { inputs_.push_back({true, desc}); }
  void AddAbsentInput() { inputs_.push_back({false, {}}); }
  void AddOutput(const CompileTimeTensorDesc& desc) { outputs_.push_back(desc); }
  RuntimeAttrs& MutableAttrs() { return attrs_; }

 private:
  struct Input {
    bool present;
    CompileTimeTensorDesc desc;
  };

  std::string type_, name_;
  std::deque<Input> inputs_;
  std::deque<CompileTimeTensorDesc> outputs_;
  RuntimeAttrs attrs_;
};

}  // namespace gert

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
