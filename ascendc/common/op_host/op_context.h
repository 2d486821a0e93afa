// Between CANN's contexts and the rules of infer/, which know nothing of CANN.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "ascendc/common/machine.h"
#include "graph/types.h"
#include "infer/format.h"
#include "infer/op.h"
#include "infer/seq.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#if __has_include("log/log.h")
#include "log/log.h"
#endif

namespace nsa::ascend {

inline DType dtype_of(ge::DataType dtype) {
  switch (dtype) {
    case ge::DT_FLOAT16:
      return DType::kFloat16;
    case ge::DT_BF16:
      return DType::kBFloat16;
    case ge::DT_FLOAT:
      return DType::kFloat32;
    case ge::DT_INT64:
      return DType::kInt64;
    default:
      return DType::kFloat64;  // which no operator takes
  }
}

inline ge::DataType ge_dtype_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return ge::DT_FLOAT16;
    case DType::kBFloat16:
      return ge::DT_BF16;
    default:
      return ge::DT_FLOAT;
  }
}

inline std::vector<int64_t> dims_of(const gert::Shape& shape) {
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < shape.GetDimNum(); ++axis) dims.push_back(shape.GetDim(axis));
  return dims;
}

inline TensorDesc describe(const gert::Shape& shape, DType dtype) {
  TensorDesc desc;
  desc.dtype = dtype;
  desc.shape = dims_of(shape);
  return desc;
}

inline void set_shape(gert::Shape* shape, const std::vector<int64_t>& dims) {
  shape->SetDimNum(dims.size());
  for (size_t axis = 0; axis < dims.size(); ++axis) shape->SetDim(axis, dims[axis]);
}

// A sequence list, which reaches the host as a tensor whose values are known.
class HostList {
 public:
  explicit HostList(const gert::Tensor* tensor) {
    desc_.present = tensor != nullptr && tensor->GetData<int64_t>() != nullptr;
    desc_.dtype = DType::kInt64;
    if (!desc_.present) return;
    const int64_t* data = tensor->GetData<int64_t>();
    values_.assign(data, data + tensor->GetShapeSize());
    desc_.shape = {static_cast<int64_t>(values_.size())};
    desc_.values = &values_;
  }
  HostList(const HostList&) = delete;
  HostList& operator=(const HostList&) = delete;

  const TensorDesc& desc() const { return desc_; }
  const SeqList& values() const { return values_; }

 private:
  SeqList values_;
  TensorDesc desc_;
};

inline TensorDesc describe_input(const gert::TilingContext& context, size_t input) {
  return describe(context.GetInputShape(input)->GetStorageShape(),
                  dtype_of(context.GetInputDesc(input)->GetDataType()));
}

[[noreturn]] inline void fail(const char* function, const std::string& what) {
  throw OpError(OpError::kValue, std::string(function) + ": " + what);
}

// What the caller allocated against what the rules say.
inline void check_output(const char* function, const char* name, const std::vector<int64_t>& got,
                         const OutputDesc& expected) {
  if (got == expected.shape) return;
  fail(function, std::string(name) + " must be of shape " + format_shape(expected.shape) +
                     ", got " + format_shape(got));
}

// The attributes that choose the packed layout, the only one there is.
inline void check_layout(const char* function, const gert::RuntimeAttrs& attrs, size_t layout,
                         size_t act_seq_len_type) {
  const char* name = attrs.GetStr(layout);
  if (name == nullptr || std::strcmp(name, "TND") != 0) {
    fail(function, std::string("layout must be 'TND', got ") +
                       (name == nullptr ? "none" : "'" + std::string(name) + "'"));
  }
  const int64_t type = *attrs.GetInt(act_seq_len_type);
  if (type != 0) {
    fail(function, "actSeqLenType must be 0 (prefix sums), got " + std::to_string(type));
  }
}

// The vector cores of the machine and what a kernel may use of each.
struct VectorCores {
  explicit VectorCores(const gert::TilingContext& context) {
    const platform_ascendc::PlatformAscendC platform(context.GetPlatformInfo());
    count = static_cast<int32_t>(platform.GetCoreNumAiv());
    uint64_t bytes = 0;
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, bytes);
    ub_bytes = static_cast<uint32_t>(std::min<uint64_t>(bytes, kUbBytes));
    library_workspace = platform.GetLibApiWorkSpaceSize();
  }

  int32_t count = 0;
  uint32_t ub_bytes = 0;
  size_t library_workspace = 0;
};

inline void define_tensor(ops::OpParamDef& param) {
  param.ParamType(ops::REQUIRED)
      .DataType({ge::DT_FLOAT16, ge::DT_BF16})
      .Format({ge::FORMAT_ND, ge::FORMAT_ND})
      .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND})
      .AutoContiguous();
}

// A sequence list: host values at tiling, an aclIntArray for the caller.
inline void define_list(ops::OpParamDef& param) {
  param.ParamType(ops::OPTIONAL)
      .DataType({ge::DT_INT64, ge::DT_INT64})
      .Format({ge::FORMAT_ND, ge::FORMAT_ND})
      .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND})
      .ValueDepend(ops::OPTIONAL);
}

inline void log_error(const char* node, const char* reason) {
#if __has_include("log/log.h")
  OP_LOGE(node, "%s", reason);
#else
  std::fprintf(stderr, "[ERROR] %s: %s\n", node, reason);
#endif
}

// Runs a step of the host side; an error of the rules is logged and becomes CANN's failure.
template <class Body>
ge::graphStatus guarded(const char* node, Body body) {
  try {
    body();
    return ge::GRAPH_SUCCESS;
  } catch (const OpError& error) {
    log_error(node, error.what());
    return error.aclnn_code == kAclnnLimit ? ge::GRAPH_FAILED : ge::GRAPH_PARAM_INVALID;
  }
}

}  // namespace nsa::ascend
