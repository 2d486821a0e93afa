#include "binding/ascend_twin.h"

#include "binding/aclnn_program.h"
#include "binding/ascend_signature.h"

namespace nsa {

namespace {

void run_on_twin(const CheckedCall& call) {
  refuse_dropped(call.context);
  AclnnProgram(call, ascend_signature(call.context.schema().name, "ascend_twin")).run();
}

}  // namespace

const Backend kAscendTwinBackend{Target::kAscend, run_on_twin};

}  // namespace nsa
