#include "twin/host/registry.h"

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include "register/op_def_registry.h"
#include "twin/host/machine.h"
#include "twin/host/product.h"

namespace twin {

namespace {

// IMPL_OP_* registers this, before or after the definition.
struct Implementation {
  gert::OpImplRegisterV2::InferShapeKernelFunc infer_shape = nullptr;
  gert::OpImplRegisterV2::InferDataTypeKernelFunc infer_data_type = nullptr;
  gert::OpImplRegisterV2::TilingKernelFunc tiling = nullptr;
  gert::OpImplRegisterV2::TilingParseFunc tiling_parse = nullptr;
  gert::OpImplRegisterV2::CompileInfoCreatorFunc create = nullptr;
  gert::OpImplRegisterV2::CompileInfoDeleterFunc destroy = nullptr;
  std::vector<int32_t> data_dependency;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, ops::OpDefFactory::Creator> creators;
  std::map<std::string, Implementation> implementations;
  std::map<std::string, std::map<size_t, Kernel>> kernels;
  std::map<std::string, std::unique_ptr<OpSpec>> specs;
};

Registry& TheRegistry() {
  static Registry registry;
  return registry;
}

// Changes what is registered of an operator; a spec made before is made again.
template <class Change>
void Implement(const ge::AscendString& op_type, Change change) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  change(registry.implementations[op_type.GetString()]);
  registry.specs.erase(op_type.GetString());
}

void Merge(const Implementation& from, OpSpec* to) {
  if (from.infer_shape != nullptr) to->infer_shape = from.infer_shape;
  if (from.infer_data_type != nullptr) to->infer_data_type = from.infer_data_type;
  if (from.tiling != nullptr) to->tiling = from.tiling;
  to->tiling_parse = from.tiling_parse;
  to->create_compile_info = from.create;
  to->delete_compile_info = from.destroy;
  for (int32_t input : from.data_dependency) {
    if (input < 0 || static_cast<size_t>(input) >= to->inputs.size()) {
      throw std::invalid_argument("definition of " + to->type + ": data dependency on input " +
                                  std::to_string(input) + " of " +
                                  std::to_string(to->inputs.size()));
    }
    to->inputs[input].value_depend = true;
  }
}

}  // namespace

KernelRegistration::KernelRegistration(const char* op_type, size_t combination, const char* name,
                                       KernelFunction function) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.kernels[op_type][combination] = {name, function};
}

std::vector<std::string> OperatorNames() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, creator] : registry.creators) names.push_back(name);
  return names;
}

const OpSpec* FindOperator(const std::string& op_type) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto known = registry.specs.find(op_type);
  if (known != registry.specs.end()) return known->second.get();
  const auto creator = registry.creators.find(op_type);
  if (creator == registry.creators.end()) return nullptr;
  auto spec =
      std::make_unique<OpSpec>(SpecOf(creator->second(op_type.c_str()), CurrentProduct().config));
  Merge(registry.implementations[op_type], spec.get());
  return (registry.specs[op_type] = std::move(spec)).get();
}

const Kernel* FindKernel(const std::string& op_type, size_t combination) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto kernels = registry.kernels.find(op_type);
  if (kernels == registry.kernels.end()) return nullptr;
  const auto kernel = kernels->second.find(combination);
  return kernel == kernels->second.end() ? nullptr : &kernel->second;
}

}  // namespace twin

const char* TwinOperators() {
  static const std::string names = [] {
    std::string text;
    for (const std::string& name : twin::OperatorNames()) text += (text.empty() ? "" : " ") + name;
    return text;
  }();
  return names.c_str();
}

namespace ops {

int OpDefFactory::OpDefRegister(const char* type, Creator creator) {
  twin::Registry& registry = twin::TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.creators[type] = creator;
  registry.specs.erase(type);
  return 0;
}

}  // namespace ops

namespace gert {

OpImplRegisterV2::OpImplRegisterV2(const ge::char_t* op_type) : op_type_(op_type) {}

OpImplRegisterV2& OpImplRegisterV2::InferShape(InferShapeKernelFunc function) {
  twin::Implement(op_type_, [&](auto& of) { of.infer_shape = function; });
  return *this;
}

OpImplRegisterV2& OpImplRegisterV2::InferDataType(InferDataTypeKernelFunc function) {
  twin::Implement(op_type_, [&](auto& of) { of.infer_data_type = function; });
  return *this;
}

OpImplRegisterV2& OpImplRegisterV2::Tiling(TilingKernelFunc function, size_t) {
  twin::Implement(op_type_, [&](auto& of) { of.tiling = function; });
  return *this;
}

OpImplRegisterV2& OpImplRegisterV2::TilingParse(TilingParseFunc function,
                                                CompileInfoCreatorFunc creator,
                                                CompileInfoDeleterFunc deleter) {
  twin::Implement(op_type_, [&](auto& of) {
    of.tiling_parse = function;
    of.create = creator;
    of.destroy = deleter;
  });
  return *this;
}

OpImplRegisterV2& OpImplRegisterV2::InputsDataDependency(std::initializer_list<int32_t> inputs) {
  return TilingInputsDataDependency(inputs);
}

OpImplRegisterV2& OpImplRegisterV2::TilingInputsDataDependency(
    std::initializer_list<int32_t> inputs) {
  twin::Implement(op_type_, [&](auto& of) {
    of.data_dependency.insert(of.data_dependency.end(), inputs.begin(), inputs.end());
  });
  return *this;
}

}  // namespace gert
