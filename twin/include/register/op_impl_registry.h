// Registration of an operator's host functions.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <initializer_list>
#include <vector>

#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "exe_graph/runtime/tiling_context.h"
#include "exe_graph/runtime/tiling_parse_context.h"
#include "graph/ascend_string.h"
#include "twin/device/where.h"

namespace gert {

class TWIN_API OpImplRegisterV2 {
 public:
  using InferShapeKernelFunc = ge::graphStatus (*)(InferShapeContext*);
  using InferDataTypeKernelFunc = ge::graphStatus (*)(InferDataTypeContext*);
  using TilingKernelFunc = ge::graphStatus (*)(TilingContext*);
  using TilingParseFunc = ge::graphStatus (*)(TilingParseContext*);
  using CompileInfoCreatorFunc = void* (*)();
  using CompileInfoDeleterFunc = void (*)(void*);

  explicit OpImplRegisterV2(const ge::char_t* op_type);

  OpImplRegisterV2& InferShape(InferShapeKernelFunc function);
  OpImplRegisterV2& InferDataType(InferDataTypeKernelFunc function);
  OpImplRegisterV2& Tiling(TilingKernelFunc function, size_t max_tiling_data_size = 2048);
  template <typename T>
  OpImplRegisterV2& TilingParse(TilingParseFunc function) {
    return TilingParse(
        function, []() -> void* { return new T(); },
        [](void* object) { delete static_cast<T*>(object); });
  }
  // Inputs whose values inference, or tiling, needs on the host.
  OpImplRegisterV2& InputsDataDependency(std::initializer_list<int32_t> inputs);
  OpImplRegisterV2& TilingInputsDataDependency(std::initializer_list<int32_t> inputs);

 private:
  OpImplRegisterV2& TilingParse(TilingParseFunc function, CompileInfoCreatorFunc creator,
                                CompileInfoDeleterFunc deleter);

  ge::AscendString op_type_;
};

}  // namespace gert

#define IMPL_OP_INFERSHAPE(op_type)                                                      \
  [[maybe_unused]] static gert::OpImplRegisterV2 op_impl_register_infershape_##op_type = \
      gert::OpImplRegisterV2(#op_type)
#define IMPL_OP_OPTILING(op_type)                                                      \
  [[maybe_unused]] static gert::OpImplRegisterV2 op_impl_register_optiling_##op_type = \
      gert::OpImplRegisterV2(#op_type)
#define IMPL_OP(op_type)                                                      \
  [[maybe_unused]] static gert::OpImplRegisterV2 op_impl_register_##op_type = \
      gert::OpImplRegisterV2(#op_type)

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
