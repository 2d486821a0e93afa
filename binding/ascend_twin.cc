#include "binding/ascend_twin.h"

#include <stdexcept>
#include <string>

#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "binding/aclnn_program.h"

namespace nsa {

namespace {

constexpr int64_t kPrefixSums = 0;  // actSeqLenType
char kPacked[] = "TND";

void nsa_compress(const CheckedCall& call) {
  AclnnProgram program(call);
  const auto first = NSA_TWIN(aclnnNsaCompressGetWorkspaceSize);
  program.run(
      "aclnnNsaCompress",
      [&](uint64_t* workspace_size, aclOpExecutor** executor) {
        return first(program.input(0), program.input(1), program.list(2), kPacked,
                     call.context.int_attr("compress_block_size"),
                     call.context.int_attr("compress_stride"), kPrefixSums, program.output(0),
                     workspace_size, executor);
      },
      NSA_TWIN(aclnnNsaCompress));
}

void nsa_compress_grad(const CheckedCall& call) {
  AclnnProgram program(call);
  const auto first = NSA_TWIN(aclnnNsaCompressGradGetWorkspaceSize);
  program.run(
      "aclnnNsaCompressGrad",
      [&](uint64_t* workspace_size, aclOpExecutor** executor) {
        return first(program.input(0), program.input(1), program.input(2), program.list(3),
                     call.context.int_attr("compress_block_size"),
                     call.context.int_attr("compress_stride"), kPrefixSums, kPacked,
                     program.output(0), program.output(1), workspace_size, executor);
      },
      NSA_TWIN(aclnnNsaCompressGrad));
}

void run_on_twin(const CheckedCall& call) {
  switch (call.context.op()) {
    case OpId::kNsaCompress:
      return nsa_compress(call);
    case OpId::kNsaCompressGrad:
      return nsa_compress_grad(call);
    default:
      throw OpError(OpError::kValue, std::string(call.context.function()) +
                                         ": there is no Ascend kernel of this operator yet, so "
                                         "target 'ascend_twin' cannot run it");
  }
}

}  // namespace

const Kernels kAscendTwinKernels{Target::kAscend, run_on_twin};

}  // namespace nsa
