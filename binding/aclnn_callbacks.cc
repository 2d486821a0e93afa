// Callbacks of MindSpore's Ascend backend for the first phase of an aclnn function, which take the
// arguments as pointers. Without them MindSpore would write such a function itself and compile it
// where the program runs.
#include <cstdint>
#include <string_view>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "binding/ascend_signature.h"

namespace nsa {

namespace {

constexpr int kInvalid = 161002;  // of aclnn: an argument is invalid

AclnnValue value_at(void* argument, AclnnKind kind) {
  AclnnValue value{};
  switch (kind) {
    case AclnnKind::kBool:
      value.boolean = *static_cast<const bool*>(argument);
      break;
    case AclnnKind::kFloat:
      value.number = *static_cast<const double*>(argument);
      break;
    case AclnnKind::kInt:
      value.integer = *static_cast<const int64_t*>(argument);
      break;
    case AclnnKind::kString:
      value.string = static_cast<char*>(argument);
      break;
    default:
      value.tensor = static_cast<const aclTensor*>(argument);
  }
  return value;
}

int first_phase(std::string_view op, void* function, const std::vector<void*>& inputs,
                const std::vector<void*>& outputs, uint64_t* workspace_size,
                aclOpExecutor** executor) {
  const AclnnFunction& description = *ascend_signature(op, "ascend").function;
  std::vector<void*> arguments = inputs;
  arguments.insert(arguments.end(), outputs.begin(), outputs.end());
  if (arguments.size() != description.parameters.size()) return kInvalid;
  std::vector<AclnnValue> values;
  values.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    values.push_back(value_at(arguments[i], description.parameters[i].kind));
  }
  return description.first_phase(function, values.data(), workspace_size, executor);
}

}  // namespace

}  // namespace nsa

// MindSpore fixes the names, which end with "GetWorkSpaceSize", and passes vectors by value.
#pragma GCC visibility push(default)

#define NSA_CALLBACK(symbol, op)                                                      \
  extern "C" int symbol##GetWorkSpaceSize(void* function, std::vector<void*> inputs,  \
                                          std::vector<void*> outputs, uint64_t* size, \
                                          aclOpExecutor** executor) {                 \
    return nsa::first_phase(#op, function, inputs, outputs, size, executor);          \
  }

NSA_CALLBACK(aclnnMsnsaCompress, NsaCompress)
NSA_CALLBACK(aclnnMsnsaCompressGrad, NsaCompressGrad)
NSA_CALLBACK(aclnnMsnsaCompressAttention, NsaCompressAttention)
NSA_CALLBACK(aclnnMsnsaSelectedAttention, NsaSelectedAttention)
NSA_CALLBACK(aclnnMsnsaSelectedAttentionGrad, NsaSelectedAttentionGrad)
NSA_CALLBACK(aclnnMsnsaFlashAttention, FlashAttentionScore)
NSA_CALLBACK(aclnnMsnsaFlashAttentionGrad, FlashAttentionScoreGrad)
NSA_CALLBACK(aclnnMsnsaCompressWithCache, NsaCompressWithCache)
NSA_CALLBACK(aclnnMsnsaSelectedAttentionInfer, NsaSelectedAttentionInfer)
NSA_CALLBACK(aclnnMsnsaCompressAttentionInfer, NsaCompressAttentionInfer)
NSA_CALLBACK(aclnnMsnsaDecode, NsaDecode)
NSA_CALLBACK(aclnnMsnsaCacheStep, NsaCacheStep)

#pragma GCC visibility pop
