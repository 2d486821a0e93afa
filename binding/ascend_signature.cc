#include "binding/ascend_signature.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace nsa {

namespace {

using twin::AclnnKind;
using twin::AclnnParameter;
using twin::AclnnRole;

std::string_view name_of(const char* name) { return name; }
template <class Spec>
std::string_view name_of(const Spec& spec) {
  return spec.name;
}

// The place of a name in a list of the schema, or its length.
template <class Specs>
size_t place_of(const Specs& specs, std::string_view name) {
  size_t place = 0;
  while (place < specs.size() && name_of(specs[place]) != name) ++place;
  return place;
}

AscendArgument resolve(const OpSchema& schema, const AclnnParameter& parameter) {
  const std::string_view name = parameter.comment;
  if (parameter.role == AclnnRole::kOutput) {
    const size_t output = place_of(schema.outputs, name);
    if (output < schema.outputs.size()) return {&parameter, AscendArgument::kOutput, output};
  } else {
    const size_t input = place_of(schema.inputs, name);
    if (parameter.role == AclnnRole::kInput && input < schema.inputs.size()) {
      return {&parameter, AscendArgument::kInput, input};
    }
    // "causal*2" is twice that attribute.
    const size_t star = std::min(name.find('*'), name.size());
    const size_t attr = place_of(schema.attrs, name.substr(0, star));
    const int64_t factor = star < name.size() ? std::stoll(std::string(name.substr(star + 1))) : 1;
    if (attr < schema.attrs.size()) return {&parameter, AscendArgument::kAttr, attr, factor};
  }
  if (!parameter.optional) {
    throw std::logic_error("aclnn" + std::string(schema.name) + ": nothing of " + schema.function +
                           " is called " + parameter.comment + ", which " + parameter.name +
                           " has to be");
  }
  return {&parameter, AscendArgument::kNone, 0};
}

std::map<std::string, AscendSignature, std::less<>> all_signatures() {
  std::map<std::string, std::string> names;  // by type
  for (const std::string& name : op_names()) names[ascend_type(name)] = name;
  std::map<std::string, AscendSignature, std::less<>> signatures;
  for (const twin::AclnnFunction& function : twin::AclnnFunctions()) {
    const std::string& name = names.at(function.op_type);
    AscendSignature& signature = signatures[name];
    signature.function = &function;
    signature.schema = &schema(name);
    for (const AclnnParameter& parameter : function.parameters) {
      signature.arguments.push_back(resolve(*signature.schema, parameter));
    }
  }
  return signatures;
}

const std::map<std::string, AscendSignature, std::less<>>& signatures() {
  static const auto all = all_signatures();
  return all;
}

}  // namespace

std::string ascend_type(std::string_view op) {
  constexpr std::string_view kOwn = "Nsa", kScore = "Score";
  std::string name(op);
  if (op.substr(0, kOwn.size()) == kOwn) name.erase(0, kOwn.size());
  const size_t score = name.find(kScore);
  if (score != std::string::npos) name.erase(score, kScore.size());
  return "Msnsa" + name;
}

std::vector<std::string> ascend_operators() {
  std::vector<std::string> names;
  for (const auto& [name, signature] : signatures()) names.push_back(name);
  return names;
}

const AscendSignature& ascend_signature(std::string_view op, std::string_view target) {
  const auto found = signatures().find(op);
  if (found != signatures().end()) return found->second;
  throw OpError(OpError::kValue,
                std::string(schema(op).function) +
                    ": there is no Ascend kernel of this operator yet, so target '" +
                    std::string(target) + "' cannot run it");
}

}  // namespace nsa
