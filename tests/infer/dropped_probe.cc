// An operator whose aclnn function knows one optional input and one attribute of each kind less
// than infer/ declares: what becomes of them in a call, one line each.
#include <cstdio>
#include <stdexcept>

#include "binding/ascend_signature.h"

namespace nsa {

namespace {

struct ProbeInputs : Inputs {
  size_t query = required("query", Elements::kFloat);
  size_t bias = optional("bias", Elements::kSameFloat);
};
constexpr ProbeInputs kInputs;

enum class Kind { kPlain, kOther };
constexpr const char* kKindNames[] = {"plain", "other"};
constexpr Choices choices_of(Kind) { return {kKindNames, 2}; }

struct ProbeAttrs {
  int64_t head_num;
  bool causal = false;
  bool renormalize = false;
  bool scaled = true;
  int64_t sinks = 2;
  float temperature = 0.1f;
  Kind kind = Kind::kPlain;
  int64_t num_rows = -1;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = ProbeAttrs;
    attr.required("head_num", &Self::head_num, 1);
    attr.optional("causal", &Self::causal);
    attr.optional("renormalize", &Self::renormalize);
    attr.optional("scaled", &Self::scaled);
    attr.optional("sinks", &Self::sinks, 0);
    attr.optional("temperature", &Self::temperature);
    attr.optional("kind", &Self::kind);
    attr.rows("num_rows", &Self::num_rows, -1);
  }
};

struct ProbeOutputs : Outputs {
  size_t attention_out = add("attention_out");
};
constexpr ProbeOutputs kOutputs;

const OpSchema& probe_schema() {
  static const OpSchema schema{OpId::kNsaSelectedAttention, kInputs, attr_specs<ProbeAttrs>(),
                               kOutputs};
  return schema;
}

void show(const char* label, bool bias, const Attrs& attrs, Target target = Target::kAscend) {
  std::vector<TensorDesc> inputs(2, {true, DType::kFloat16, true, {1}});
  inputs[1].present = bias;
  try {
    const BoundAttrs bound(probe_schema(), attrs);
    refuse_dropped(Context(bound, inputs, target));
    std::printf("%s: taken\n", label);
  } catch (const OpError& error) {
    std::printf("%s: %d %s\n", label, error.aclnn_code, error.what());
  }
}

}  // namespace

// In place of the registry.
OpSchema::OpSchema(OpId id, const Inputs& inputs, AttrSchema attrs, const Outputs& outputs)
    : id(id),
      name("NsaProbe"),
      function("nsa_probe"),
      inputs(inputs),
      attrs(std::move(attrs.specs)),
      declared(attrs.declared),
      outputs(outputs) {}
const OpSchema& schema(std::string_view) { return probe_schema(); }
std::vector<std::string> op_names() { return {"NsaProbe"}; }

bool with_head_num = true;

const std::vector<AclnnFunction>& aclnn_functions() {
  const auto attr = [](const char* name, const char* comment) {
    return AclnnParameter{name, comment, AclnnRole::kAttr, AclnnKind::kInt, false, {}};
  };
  static std::vector<AclnnFunction> functions{
      {"MsnsaProbe",
       {{"query", "query", AclnnRole::kInput, AclnnKind::kTensor, false, {}},
        attr("sparseMode", "causal*2"),
        {"attentionOut", "attention_out", AclnnRole::kOutput, AclnnKind::kTensor, false, {}}},
       nullptr}};
  if (with_head_num) functions[0].parameters.push_back(attr("headNum", "head_num"));
  return functions;
}

}  // namespace nsa

// With an argument the function lacks an attribute that every call has.
int main(int count, char**) {
  nsa::with_head_num = count == 1;
  using nsa::Attrs;
  const auto with = [](const char* name, Attrs::Value value) {
    return Attrs().set("head_num", int64_t{4}).set(name, std::move(value));
  };
  const auto plain = [&] { return with("head_num", int64_t{4}); };
  try {
    nsa::show("defaults", false, plain());
    nsa::show("on a CPU", true, with("renormalize", int64_t{1}), nsa::Target::kCpu);
    nsa::show("known", false, with("causal", int64_t{1}));
    nsa::show("rows", false, with("num_rows", int64_t{7}));
    nsa::show("default float", false, with("temperature", 0.1));
    nsa::show("bias", true, plain());
    nsa::show("renormalize", false, with("renormalize", int64_t{1}));
    nsa::show("scaled", false, with("scaled", int64_t{0}));
    nsa::show("sinks", false, with("sinks", int64_t{3}));
    nsa::show("temperature", false, with("temperature", 0.25));
    nsa::show("kind", false, with("kind", std::string("other")));
  } catch (const std::logic_error& error) {
    std::printf("%s\n", error.what());
  }
}
