#include "twin/host/template_key.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "twin/host/log.h"
#include "twin/host/template_values.h"

namespace twin {
namespace {

struct Templates {
  std::mutex mutex;
  std::map<std::string, TilingDeclareParams> params;
};
Templates& TheTemplates() {
  static Templates templates;
  return templates;
}

uint64_t Invalid(const std::string& message) {
  LogError("GET_TPL_TILING_KEY", message);
  return INVALID_TILING_KEY;
}

}  // namespace

bool RegisterTemplate(const char* op_type, const TilingDeclareParams& params) {
  Templates& templates = TheTemplates();
  const std::lock_guard<std::mutex> lock(templates.mutex);
  templates.params.insert_or_assign(op_type, params);
  return true;
}

const TilingDeclareParams* FindTemplate(const std::string& op_type) {
  Templates& templates = TheTemplates();
  const std::lock_guard<std::mutex> lock(templates.mutex);
  const auto found = templates.params.find(op_type);
  return found == templates.params.end() ? nullptr : &found->second;
}

uint64_t EncodeTemplateKey(const TilingDeclareParams& params,
                           std::initializer_list<uint64_t> values) {
  if (values.size() != params.size()) {
    return Invalid("it got " + std::to_string(values.size()) + " values for " +
                   std::to_string(params.size()) + " parameters");
  }
  uint64_t key = 0;
  uint32_t bits = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    const ParamStruct& param = params[i];
    const std::string name = param.name;
    uint64_t code = values.begin()[i];
    const std::string given = std::to_string(code);
    if (param.paramType == kTemplateUint) {
      const size_t count = UintCount(param.vals.data(), param.vals.size());
      for (code = 0; code < count; ++code) {
        if (UintValue(param.vals.data(), param.vals.size(), code) == values.begin()[i]) break;
      }
      if (code == count) return Invalid(name + " is " + given + ", which is not declared");
    }
    if (param.bitWidth < 64 && code >> param.bitWidth != 0) {
      return Invalid(name + " is " + given + ", which does not fit in " +
                     std::to_string(param.bitWidth) + " bits");
    }
    if (bits + param.bitWidth > 64) return Invalid("the parameters have more than 64 bits");
    key |= code << bits;
    bits += param.bitWidth;
  }
  return key;
}

}  // namespace twin
