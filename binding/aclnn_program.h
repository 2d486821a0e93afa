// An aclnn program as a user of the library writes it: device memory, tensors, two phases, results.
#pragma once

#include <functional>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "binding/op_call.h"

namespace nsa {

// A function of the twin's library, which stands beside this one and is opened at the first call.
// Throws std::runtime_error where it is missing.
void* twin_symbol(const char* name);

// One call: its tensors are in device memory until it is over.
class AclnnProgram {
 public:
  using FirstPhase = std::function<aclnnStatus(uint64_t* workspace_size, aclOpExecutor** executor)>;
  using SecondPhase = aclnnStatus (*)(void* workspace, uint64_t workspace_size,
                                      aclOpExecutor* executor, aclrtStream stream);

  // Copies the inputs to the device; lists stay on the host.
  explicit AclnnProgram(const CheckedCall& call);
  ~AclnnProgram();
  AclnnProgram(const AclnnProgram&) = delete;
  AclnnProgram& operator=(const AclnnProgram&) = delete;

  // Null where the input is absent.
  const aclTensor* input(size_t index) const { return inputs_[index].tensor; }
  const aclIntArray* list(size_t index) const { return inputs_[index].list; }
  const aclTensor* output(size_t index) const { return outputs_[index].tensor; }

  // Runs the operator and copies the outputs back; throws std::runtime_error with the reason where
  // a step fails. `api`: the name of the second phase, "aclnnNsaCompress".
  void run(const char* api, const FirstPhase& first, SecondPhase second);

 private:
  struct Argument {
    void* memory = nullptr;
    aclTensor* tensor = nullptr;
    aclIntArray* list = nullptr;
  };

  void release();
  void add_tensor(const CallTensor& tensor, bool copy, Argument* argument);
  void* allocate(size_t bytes);

  const CheckedCall& call_;
  aclrtStream stream_ = nullptr;
  void* workspace_ = nullptr;
  std::vector<Argument> inputs_, outputs_;
};

}  // namespace nsa

// The function `name` of the twin's library, with the type that its header gives it.
#define NSA_TWIN(name) (reinterpret_cast<decltype(&name)>(::nsa::twin_symbol(#name)))
