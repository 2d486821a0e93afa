#include <atomic>
#include <stdexcept>
#include <utility>

#include "infer/check.h"

namespace nsa {

namespace {

using RulesOf = const OpRules& (*)();

// In the order of OpId.
constexpr RulesOf kRegistry[] = {
#define NSA_OP_RULES(op, function, outputs) function##_rules,
    NSA_OPERATORS(NSA_OP_RULES)
#undef NSA_OP_RULES
};

struct OpNames {
  const char* name;
  const char* function;
};

constexpr OpNames kNames[] = {
#define NSA_OP_NAMES(op, function, outputs) {#op, #function},
    NSA_OPERATORS(NSA_OP_NAMES)
#undef NSA_OP_NAMES
};

std::atomic<int64_t> calls_of_rules{0};

const OpRules& find_rules(std::string_view op) {
  for (RulesOf rules_of : kRegistry) {
    const OpRules& rules = rules_of();
    if (op == rules.schema.name) return rules;
  }
  throw OpError(OpError::kValue, "unknown operator " + std::string(op));
}

int16_t place_of_attr(const std::vector<AttrSpec>& attrs, const SizeName& name) {
  const std::string_view attr = name.attr.empty() ? name.name : name.attr;
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (attrs[i].type == AttrType::kInt && attr == attrs[i].name) return static_cast<int16_t>(i);
  }
  if (!name.attr.empty()) throw std::logic_error("no attribute " + std::string(attr));
  return -1;
}

uint8_t place_of_input(const Inputs& inputs, std::string_view name) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (name == inputs[i].name) return static_cast<uint8_t>(i);
  }
  throw std::logic_error("no input " + std::string(name));
}

SizeSources size_sources(const Inputs& inputs, const std::vector<AttrSpec>& attrs,
                         const Outputs& outputs) {
  SizeSources sources;
  const ShapeTable &of_inputs = inputs.shapes(), &of_outputs = outputs.shapes();
  for (size_t i = 0; i < of_inputs.names(); ++i)
    sources.attrs.push_back(place_of_attr(attrs, of_inputs.name(i)));
  for (size_t i = 0; i < of_outputs.names(); ++i) {
    const size_t place = of_inputs.place_of(of_outputs.name(i).name);
    if (place < of_inputs.names()) {
      sources.of_outputs.push_back(static_cast<uint8_t>(place));
      continue;
    }
    sources.of_outputs.push_back(static_cast<uint8_t>(sources.attrs.size()));
    sources.attrs.push_back(place_of_attr(attrs, of_outputs.name(i)));
  }
  if (sources.attrs.size() > kMostSizes) throw std::logic_error("too many sizes");
  for (const OutputSpec& output : outputs)
    sources.likes.push_back(output.like == nullptr ? 0 : place_of_input(inputs, output.like));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].elements == Elements::kFloat) sources.float_input = i;
  }
  return sources;
}

}  // namespace

OpSchema::OpSchema(OpId id, const Inputs& inputs, AttrSchema attrs, const Outputs& outputs)
    : id(id),
      name(kNames[static_cast<size_t>(id)].name),
      function(kNames[static_cast<size_t>(id)].function),
      inputs(inputs),
      attrs(std::move(attrs.specs)),
      declared(attrs.declared),
      outputs(outputs),
      sizes(size_sources(inputs, this->attrs, outputs)) {}

const OpSchema& schema(std::string_view op) { return find_rules(op).schema; }

const OpSchema& schema(OpId op) { return kRegistry[static_cast<size_t>(op)]().schema; }

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (RulesOf rules_of : kRegistry) names.push_back(rules_of().schema.name);
  return names;
}

int64_t rules_called() { return calls_of_rules.load(std::memory_order_relaxed); }

std::vector<OutputDesc> infer(std::string_view op, const std::vector<TensorDesc>& inputs,
                              const Attrs& attrs, Target target) {
  const OpRules& rules = find_rules(op);
  const BoundAttrs bound(rules.schema, attrs);
  return infer(Context(bound, inputs, target));
}

namespace {

// No memory holds more, and whoever allocates outputs multiplies their sizes without a check.
constexpr int64_t kMostOutputBytes = int64_t{1} << 47;

void check_output_sizes(const Context& context, const std::vector<OutputDesc>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    int64_t bytes = dtype_size(outputs[i].dtype);
    for (int64_t size : outputs[i].shape) bytes = product({bytes, size});
    if (bytes <= kMostOutputBytes) continue;
    context.fail_value(context.schema().outputs[i],
                       "of at most " + std::to_string(kMostOutputBytes) + " bytes",
                       "shape " + format_shape(outputs[i].shape));
  }
}

}  // namespace

std::vector<OutputDesc> infer(const Context& context) {
  // Threads that call at the same moment may lose a count: an increment that others wait for would
  // cost more than it tells.
  calls_of_rules.store(calls_of_rules.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
  std::vector<OutputDesc> outputs = kRegistry[static_cast<size_t>(context.op())]().infer(context);
  check_output_sizes(context, outputs);
  return outputs;
}

}  // namespace nsa
