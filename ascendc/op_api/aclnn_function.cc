#include "ascendc/op_api/aclnn_function.h"

namespace nsa {

const std::vector<AclnnFunction>& aclnn_functions() {
  static const std::vector<AclnnFunction> functions = {
#include "aclnn_functions.inc"
  };
  return functions;
}

}  // namespace nsa
