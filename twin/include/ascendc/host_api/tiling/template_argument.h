// The template parameters of a kernel, the combinations of them that are built, and the tiling key
// that stands for one. An operator's host side and its kernel include the same declarations: the
// host makes keys of them, the kernel's unit (ASCENDC_TPL_KERNEL) the instances.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <cstdint>

#ifdef ASCENDC_TPL_KERNEL
#include "twin/host/template_instance.h"
#else
#include "twin/host/template_key.h"
#endif

enum C_DataType {
  C_DT_FLOAT = 0,
  C_DT_FLOAT16 = 1,
  C_DT_INT8 = 2,
  C_DT_INT32 = 3,
  C_DT_UINT8 = 4,
  C_DT_INT16 = 6,
  C_DT_UINT16 = 7,
  C_DT_UINT32 = 8,
  C_DT_INT64 = 9,
  C_DT_UINT64 = 10,
  C_DT_DOUBLE = 11,
  C_DT_BOOL = 12,
  C_DT_BF16 = 27,
  C_DT_INT4 = 29,
};
enum C_Format {
  C_FORMAT_NCHW = 0,
  C_FORMAT_NHWC = 1,
  C_FORMAT_ND = 2,
  C_FORMAT_FRACTAL_NZ = 29,
};

#define ASCENDC_TPL_AIV_ONLY 0
#define ASCENDC_TPL_AIC_ONLY 1
#define ASCENDC_TPL_MIX_AIV_1_0 4
#define ASCENDC_TPL_MIX_AIC_1_0 5
#define ASCENDC_TPL_MIX_AIC_1_1 6
#define ASCENDC_TPL_MIX_AIC_1_2 7

#define ASCENDC_TPL_1_BW 1
#define ASCENDC_TPL_2_BW 2
#define ASCENDC_TPL_4_BW 4
#define ASCENDC_TPL_8_BW 8

#define ASCENDC_TPL_DTYPE 0
#define ASCENDC_TPL_FORMAT 1
#define ASCENDC_TPL_UINT 2
#define ASCENDC_TPL_BOOL 3
constexpr uint32_t ASCENDC_TPL_KERNEL_TYPE = 4;
constexpr uint32_t ASCENDC_TPL_DETERMINISTIC = 5;
constexpr uint32_t ASCENDC_TPL_SHARED_KERNEL_TYPE = 6;

#define ASCENDC_TPL_INPUT_BIAS 100000000
#define ASCENDC_TPL_OUTPUT_BIAS 900000000
#define ASCENDC_TPL_INPUT(x) (ASCENDC_TPL_INPUT_BIAS + (x))
#define ASCENDC_TPL_OUTPUT(x) (ASCENDC_TPL_OUTPUT_BIAS + (x))

#define ASCENDC_TPL_UI_RANGE 0
#define ASCENDC_TPL_UI_LIST 1
#define ASCENDC_TPL_UI_MIX 2

#ifdef ASCENDC_TPL_KERNEL

#define TWIN_TPL(kind, bits, ...) \
  ::twin::TemplateParam<kind, bits, __VA_ARGS__> {}

#define ASCENDC_TPL_DTYPE_DECL(x, ...) TWIN_TPL(ASCENDC_TPL_DTYPE, 8, __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_DECL(x, ...) TWIN_TPL(ASCENDC_TPL_DTYPE, 8, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_DECL(x, ...) TWIN_TPL(ASCENDC_TPL_FORMAT, 8, __VA_ARGS__)
#define ASCENDC_TPL_UINT_DECL(x, bw, ...) TWIN_TPL(ASCENDC_TPL_UINT, bw, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_DECL(x, ...) TWIN_TPL(ASCENDC_TPL_BOOL, 1, __VA_ARGS__)
#define ASCENDC_TPL_KERNEL_TYPE_DECL(x, ...) \
  TWIN_TPL(ASCENDC_TPL_SHARED_KERNEL_TYPE, 8, __VA_ARGS__)

#define ASCENDC_TPL_DTYPE_SEL(x, ...) TWIN_TPL(ASCENDC_TPL_DTYPE, 8, __VA_ARGS__)
#define ASCENDC_TPL_DATATYPE_SEL(x, ...) TWIN_TPL(ASCENDC_TPL_DTYPE, 8, __VA_ARGS__)
#define ASCENDC_TPL_FORMAT_SEL(x, ...) TWIN_TPL(ASCENDC_TPL_FORMAT, 8, __VA_ARGS__)
#define ASCENDC_TPL_UINT_SEL(x, ...) TWIN_TPL(ASCENDC_TPL_UINT, 0, __VA_ARGS__)
#define ASCENDC_TPL_BOOL_SEL(x, ...) TWIN_TPL(ASCENDC_TPL_BOOL, 1, __VA_ARGS__)
#define ASCENDC_TPL_KERNEL_TYPE_SEL(...) TWIN_TPL(ASCENDC_TPL_KERNEL_TYPE, 8, __VA_ARGS__)
#define ASCENDC_TPL_DETERMINISTIC_SEL(...) TWIN_TPL(ASCENDC_TPL_DETERMINISTIC, 1, __VA_ARGS__)
#define ASCENDC_TPL_SHARED_KERNEL_TYPE_SEL(x, ...) \
  TWIN_TPL(ASCENDC_TPL_SHARED_KERNEL_TYPE, 8, __VA_ARGS__)

#define ASCENDC_TPL_ARGS_DECL(x, ...) \
  static constexpr ::twin::TemplateDeclared twin_declared { __VA_ARGS__ }
#define ASCENDC_TPL_ARGS_SEL(...) \
  ::twin::TemplateSelection { __VA_ARGS__ }
#define ASCENDC_TPL_SEL(...) \
  static constexpr ::twin::TemplateSelected twin_selected { __VA_ARGS__ }

#else

#define ASCENDC_TPL_DTYPE_DECL(x, ...) ParamStruct{#x, ASCENDC_TPL_DTYPE, 8, {__VA_ARGS__}, "DECL"}
#define ASCENDC_TPL_DATATYPE_DECL(x, ...) \
  ParamStruct{"typename " #x, ASCENDC_TPL_DTYPE, 8, {__VA_ARGS__}, "DECL"}
#define ASCENDC_TPL_FORMAT_DECL(x, ...) \
  ParamStruct{#x, ASCENDC_TPL_FORMAT, 8, {__VA_ARGS__}, "DECL"}
#define ASCENDC_TPL_UINT_DECL(x, bw, ...) \
  ParamStruct{#x, ASCENDC_TPL_UINT, bw, {__VA_ARGS__}, "DECL"}
#define ASCENDC_TPL_BOOL_DECL(x, ...) ParamStruct{#x, ASCENDC_TPL_BOOL, 1, {__VA_ARGS__}, "DECL"}
#define ASCENDC_TPL_KERNEL_TYPE_DECL(x, ...) \
  ParamStruct{#x, ASCENDC_TPL_SHARED_KERNEL_TYPE, 8, {__VA_ARGS__}, "DECL"}

#define ASCENDC_TPL_ARGS_DECL(x, ...)                                                   \
  [[maybe_unused]] static const TilingDeclareParams g_tilingDeclareParams{__VA_ARGS__}; \
  [[maybe_unused]] static const bool twin_registered =                                  \
      ::twin::RegisterTemplate(#x, g_tilingDeclareParams)
#define ASCENDC_TPL_SEL(...)

#define GET_TPL_TILING_KEY(...) ::twin::EncodeTemplateKey(g_tilingDeclareParams, {__VA_ARGS__})
#define ASCENDC_TPL_SEL_PARAM(context, ...)               \
  do {                                                    \
    const uint64_t key = GET_TPL_TILING_KEY(__VA_ARGS__); \
    context->SetTilingKey(key);                           \
  } while (0)

#endif

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
