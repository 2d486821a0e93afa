#include <atomic>
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

}  // namespace

OpSchema::OpSchema(OpId id, const Inputs& inputs, AttrSchema attrs, const Outputs& outputs)
    : id(id),
      name(kNames[static_cast<size_t>(id)].name),
      function(kNames[static_cast<size_t>(id)].function),
      inputs(inputs),
      attrs(std::move(attrs.specs)),
      declared(attrs.declared),
      outputs(outputs) {}

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
