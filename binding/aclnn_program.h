// An aclnn program as a user of the library writes it: device memory, tensors, two phases, results.
#pragma once

#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "binding/ascend_signature.h"
#include "binding/op_call.h"

namespace nsa {

// One call: its tensors are in device memory until it is over.
class AclnnProgram {
 public:
  // Copies the inputs to the device; lists stay on the host.
  AclnnProgram(const CheckedCall& call, const AscendSignature& signature);
  ~AclnnProgram();
  AclnnProgram(const AclnnProgram&) = delete;
  AclnnProgram& operator=(const AclnnProgram&) = delete;

  // Runs the operator and copies the outputs back; throws std::runtime_error with the reason where
  // a step fails.
  void run();

 private:
  struct Result {
    const TensorDesc* to;
    void* memory;
  };

  AclnnValue value_of(const AscendArgument& argument);
  AclnnValue attr_value(const AscendArgument& argument);
  aclTensor* make_tensor(const TensorDesc& tensor, void** memory);
  // A tensor with the content of the call's.
  aclTensor* make_filled(const TensorDesc& tensor, void** memory);
  aclIntArray* make_list(const std::vector<int64_t>& values);
  void* allocate(size_t bytes);
  void release() noexcept;

  const CheckedCall& call_;
  const AscendSignature& signature_;
  aclrtStream stream_ = nullptr;
  std::vector<AclnnValue> values_;  // in aclnn order
  std::vector<Result> results_;
  std::vector<void*> memory_;
  std::vector<aclTensor*> tensors_;
  std::vector<aclIntArray*> lists_;
};

}  // namespace nsa
