#include "binding/ascend_signature.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace nsa {

namespace {

std::string_view spec_name(const char* name) { return name; }
template <class Spec>
std::string_view spec_name(const Spec& spec) {
  return spec.name;
}

// The place of a name in a list of the schema, or its length.
template <class Specs>
size_t place_of(const Specs& specs, std::string_view name) {
  size_t place = 0;
  while (place < specs.size() && spec_name(specs[place]) != name) ++place;
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

// A place that no argument has as its source. `required`: whether every call needs it.
void find_dropped(const AscendSignature& signature, AscendArgument::Source source, size_t place,
                  const char* name, bool required, std::vector<size_t>& dropped) {
  for (const AscendArgument& argument : signature.arguments) {
    if (argument.source == source && argument.index == place) return;
  }
  if (required) {
    throw std::logic_error("aclnn" + std::string(signature.schema->name) + ": no parameter is " +
                           name + ", without which there is no call of " +
                           signature.schema->function);
  }
  dropped.push_back(place);
}

AscendSignature signature_of(const AclnnFunction& function, const OpSchema& schema) {
  AscendSignature signature{&function, &schema, {}, {}, {}};
  for (const AclnnParameter& parameter : function.parameters) {
    signature.arguments.push_back(resolve(schema, parameter));
  }
  for (size_t i = 0; i < schema.inputs.size(); ++i) {
    const InputSpec& input = schema.inputs[i];
    find_dropped(signature, AscendArgument::kInput, i, input.name, !input.optional,
                 signature.dropped_inputs);
  }
  for (size_t i = 0; i < schema.attrs.size(); ++i) {
    const AttrSpec& attr = schema.attrs[i];
    if (attr.rows) continue;
    find_dropped(signature, AscendArgument::kAttr, i, attr.name, attr.required,
                 signature.dropped_attrs);
  }
  return signature;
}

// An int where a float is declared is taken as one; what graphs pass was rounded to float32.
float number_of(const Attrs::Value& value) {
  const auto* integer = std::get_if<int64_t>(&value);
  return integer != nullptr ? static_cast<float>(*integer)
                            : static_cast<float>(std::get<double>(value));
}

bool is_default(const AttrSpec& attr, const Attrs::Value& value) {
  if (attr.type == AttrType::kFloat) return number_of(value) == number_of(attr.fallback);
  return value == attr.fallback;
}

// The value of an attribute as messages show it.
std::string shown(const AttrSpec& attr, const Attrs::Value& value) {
  if (!attr.flag) return format_value(value);
  return std::get<int64_t>(value) != 0 ? "True" : "False";
}

std::map<std::string, AscendSignature, std::less<>> all_signatures() {
  std::map<std::string, std::string> names;  // by type
  for (const std::string& name : op_names()) names[ascend_type(name)] = name;
  std::map<std::string, AscendSignature, std::less<>> signatures;
  for (const AclnnFunction& function : aclnn_functions()) {
    const std::string& name = names.at(function.op_type);
    signatures.emplace(name, signature_of(function, schema(name)));
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

const AscendSignature& ascend_signature(std::string_view op, std::string_view target,
                                        std::string_view function) {
  const auto found = signatures().find(op);
  if (found != signatures().end()) return found->second;
  throw OpError(OpError::kValue,
                std::string(function.empty() ? schema(op).function : function) +
                    ": there is no Ascend kernel of this operator yet, so target '" +
                    std::string(target) + "' cannot run it");
}

void refuse_dropped(const Context& context) {
  if (context.target() != Target::kAscend) return;
  const OpSchema& op = context.schema();
  const auto found = signatures().find(op.name);
  if (found == signatures().end()) return;
  constexpr const char* kReason = " on Ascend, whose kernel does not take it";
  for (size_t input : found->second.dropped_inputs) {
    if (!context.has(input)) continue;
    context.fail_value(context.name(input), std::string("None") + kReason, "a Tensor", kAclnnLimit);
  }
  for (size_t place : found->second.dropped_attrs) {
    const AttrSpec& attr = op.attrs[place];
    const Attrs::Value& value = context.attr(place);
    if (is_default(attr, value)) continue;
    context.fail_value(attr.name, shown(attr, attr.fallback) + kReason, shown(attr, value),
                       kAclnnLimit);
  }
}

}  // namespace nsa
