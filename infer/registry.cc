#include <stdexcept>

#include "infer/check.h"

namespace nsa {

namespace {

using RulesOf = const OpRules& (*)();

// In the order of OpId.
constexpr RulesOf kRegistry[] = {
    nsa_compress_rules,
    nsa_compress_grad_rules,
    nsa_compress_attention_rules,
    nsa_selected_attention_rules,
    nsa_selected_attention_grad_rules,
    flash_attention_score_rules,
    flash_attention_score_grad_rules,
    nsa_dropout_mask_rules,
};

const OpRules& find_rules(std::string_view op) {
  for (RulesOf rules_of : kRegistry) {
    const OpRules& rules = rules_of();
    if (op == rules.schema.name) return rules;
  }
  throw OpError(OpError::kValue, "unknown operator " + std::string(op));
}

}  // namespace

const OpSchema& schema(std::string_view op) { return find_rules(op).schema; }

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (RulesOf rules_of : kRegistry) names.push_back(rules_of().schema.name);
  return names;
}

std::vector<OutputDesc> infer(std::string_view op, const std::vector<TensorDesc>& inputs,
                              const Attrs& attrs, Target target) {
  const OpRules& rules = find_rules(op);
  return rules.infer(Context(rules.schema, inputs, attrs, target));
}

std::vector<OutputDesc> infer(const Context& context) {
  return kRegistry[static_cast<size_t>(context.op())]().infer(context);
}

void check_lists(std::string_view op, const std::vector<TensorDesc>& inputs, const Attrs& attrs,
                 Target target) {
  const OpRules& rules = find_rules(op);
  const Context context(rules.schema, inputs, attrs, target);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (rules.schema.inputs[i].list && context.has(i) && inputs[i].values == nullptr) {
      context.fail_value(context.name(i), "given with its values at run time", "none");
    }
  }
  rules.infer(context);
}

}  // namespace nsa
