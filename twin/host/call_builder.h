// The first phase of an aclnn call, step by step.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "twin/host/executor.h"
#include "twin/host/op_call.h"

namespace twin {

// A call that cannot be made, with its status. Without a text where the reason has been logged.
struct CallError : std::runtime_error {
  CallError(aclnnStatus status, const std::string& what)
      : std::runtime_error(what), status(status) {}
  aclnnStatus status;
};

// Every element of a tensor lies in its storage, and in device memory where it has any yet: an
// executor that is made repeatable may get its addresses later. Throws CallError.
void CheckView(const KernelArgument& argument);

// Makes an executor of a call; throws CallError.
class CallBuilder {
 public:
  explicit CallBuilder(const OpCall& call) : call_(call) {}
  std::unique_ptr<aclOpExecutor> Build();

 private:
  void FindSpec();
  void CheckKinds() const;
  void CheckNull() const;
  void CheckExist() const;
  void AddArguments();
  KernelArgument MakeInput(size_t index) const;
  const ParamSpec& ParamOf(size_t argument) const;
  void ChooseCombination();
  [[noreturn]] void FailCombination(size_t argument) const;
  void CheckMemory() const;
  void Tile();
  void PlanCopies();

  const OpCall& call_;
  const OpSpec* spec_ = nullptr;
  size_t combination_ = 0;
  std::unique_ptr<aclOpExecutor> executor_ = std::make_unique<aclOpExecutor>();
};

}  // namespace twin
