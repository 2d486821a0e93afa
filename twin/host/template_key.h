// Kernels that are templates: what their host side declares, and the tiling keys it makes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "twin/device/where.h"

// ASCENDC_TPL_ARGS_DECL gives it so; the values of a UINT are as they are written.
struct ParamStruct {
  const char* name;
  uint32_t paramType;
  uint8_t bitWidth;
  std::vector<uint64_t> vals;
  const char* macroType;
  ParamStruct(const char* inName, uint32_t inParamType, uint8_t inBitWidth,
              std::vector<uint64_t> inVals, const char* inMacroType)
      : name(inName),
        paramType(inParamType),
        bitWidth(inBitWidth),
        vals(std::move(inVals)),
        macroType(inMacroType) {}
};
using TilingDeclareParams = std::vector<ParamStruct>;
constexpr uint64_t INVALID_TILING_KEY = 0xffffffffffffffff;

namespace twin {

TWIN_API bool RegisterTemplate(const char* op_type, const TilingDeclareParams& params);
// The parameters that an operator's kernel is declared with, or null: the kernel is no template.
const TilingDeclareParams* FindTemplate(const std::string& op_type);
// The key of these values, in the order of the declaration; what is not declared is logged.
TWIN_API uint64_t EncodeTemplateKey(const TilingDeclareParams& params,
                                    std::initializer_list<uint64_t> values);

}  // namespace twin
