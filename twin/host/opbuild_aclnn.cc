// The aclnn functions of a definition: header, source, and their description as data.
#include <cctype>
#include <iomanip>
#include <limits>
#include <locale>
#include <sstream>

#include "twin/host/aclnn_kinds.h"
#include "twin/host/opbuild.h"

namespace twin {

namespace {

// By AclnnRole and AclnnKind: how the generated text names them.
constexpr const char* kRoles[] = {"Input", "Attr", "Output"};
constexpr const char* kKinds[] = {"Tensor", "IntArray", "FloatArray", "BoolArray",
                                  "Bool",   "Float",    "Int",        "String"};
constexpr const char* kTypes[] = {"const aclTensor* ",
                                  "const aclIntArray* ",
                                  "const aclFloatArray* ",
                                  "const aclBoolArray* ",
                                  "bool ",
                                  "double ",
                                  "int64_t ",
                                  "char* "};
constexpr const char* kMembers[] = {"tensor",  "int_array", "float_array", "bool_array",
                                    "boolean", "number",    "integer",     "string"};

// "act_seq_len" -> "actSeqLen".
std::string CamelCase(const std::string& name) {
  std::string result;
  bool capital = false;
  for (char c : name) {
    if (c == '_') {
      capital = true;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    result += static_cast<char>(capital ? std::toupper(byte) : c);
    capital = false;
  }
  if (!result.empty()) {
    result[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(result[0])));
  }
  return result;
}

// A parameter of the first phase, and what it comes from: one of `param` and `attr`.
struct Parameter {
  std::string name;
  AclnnRole role;
  AclnnKind kind;
  bool optional;
  const ParamSpec* param;
  const AttrSpec* attr;

  std::string declaration() const {
    return (ref() ? "aclTensor* " : kTypes[static_cast<int>(kind)]) + name;
  }
  // Whether the operator also writes the input.
  bool ref() const { return param != nullptr && param->ref >= 0; }
  const char* role_name() const { return kRoles[static_cast<int>(role)]; }
  const std::string& defined_name() const { return param ? param->name : attr->name; }
  const std::string& comment() const { return param ? param->comment : attr->comment; }
};

AclnnKind ArrayOf(ge::DataType dtype) {
  return dtype == ge::DT_FLOAT  ? AclnnKind::kFloatArray
         : dtype == ge::DT_BOOL ? AclnnKind::kBoolArray
                                : AclnnKind::kIntArray;
}

Parameter InputParameter(const ParamSpec& input) {
  const AclnnKind kind = input.value_depend ? ArrayOf(input.dtypes[0]) : AclnnKind::kTensor;
  return {
      CamelCase(input.name) + (input.ref >= 0 ? "Ref" : "") + (input.optional ? "Optional" : ""),
      AclnnRole::kInput,
      kind,
      input.optional,
      &input,
      nullptr};
}

Parameter AttrParameter(const AttrSpec& attr) {
  constexpr AclnnKind kAttrKinds[] = {
      AclnnKind::kBool,     AclnnKind::kFloat,      AclnnKind::kInt,      AclnnKind::kString,
      AclnnKind::kIntArray, AclnnKind::kFloatArray, AclnnKind::kBoolArray};
  const bool may_be_null = attr.kind >= AttrKind::kString;
  const std::string suffix = !attr.required && may_be_null ? "Optional" : "";
  return {CamelCase(attr.name) + suffix,
          AclnnRole::kAttr,
          kAttrKinds[static_cast<int>(attr.kind)],
          !attr.required,
          nullptr,
          &attr};
}

// A sole output is "out"; one that has the name of an input is that parameter.
Parameter OutputParameter(const OpSpec& spec, const ParamSpec& output) {
  if (output.ref >= 0) {
    Parameter parameter = InputParameter(spec.inputs[static_cast<size_t>(output.ref)]);
    parameter.role = AclnnRole::kOutput;
    return parameter;
  }
  const std::string name = spec.outputs.size() == 1 ? "out" : CamelCase(output.name) + "Out";
  return {name + (output.optional ? "Optional" : ""),
          AclnnRole::kOutput,
          AclnnKind::kTensor,
          output.optional,
          &output,
          nullptr};
}

// CANN's order: inputs, attributes, outputs, each as in the definition, without those that are
// inputs.
std::vector<Parameter> Parameters(const OpSpec& spec) {
  std::vector<Parameter> parameters;
  for (const ParamSpec& input : spec.inputs) parameters.push_back(InputParameter(input));
  for (const AttrSpec& attr : spec.attrs) parameters.push_back(AttrParameter(attr));
  for (const ParamSpec& output : spec.outputs) {
    if (output.ref < 0) parameters.push_back(OutputParameter(spec, output));
  }
  return parameters;
}

// The function hands over all of the definition, an input that is also an output as both.
std::vector<Parameter> CallArguments(const OpSpec& spec) {
  std::vector<Parameter> arguments;
  for (const ParamSpec& input : spec.inputs) arguments.push_back(InputParameter(input));
  for (const AttrSpec& attr : spec.attrs) arguments.push_back(AttrParameter(attr));
  for (const ParamSpec& output : spec.outputs) arguments.push_back(OutputParameter(spec, output));
  return arguments;
}

std::string Note(const Parameter& parameter) {
  constexpr const char* kNotes[] = {"input", "attribute", "output"};
  const std::string note =
      parameter.ref() ? "input, which is also written" : kNotes[static_cast<int>(parameter.role)];
  return (parameter.optional ? "optional " : "") + note;
}

std::string FirstPhase(const OpSpec& spec) {
  std::string text = "aclnnStatus aclnn" + spec.type + "GetWorkspaceSize(\n";
  for (const Parameter& parameter : Parameters(spec)) {
    text += "    " + parameter.declaration() + ",\n";
  }
  return text + "    uint64_t* workspaceSize,\n    aclOpExecutor** executor)";
}

std::string SecondPhase(const OpSpec& spec) {
  return "aclnnStatus aclnn" + spec.type +
         "(\n    void* workspace,\n    uint64_t workspaceSize,\n    aclOpExecutor* executor,\n"
         "    aclrtStream stream)";
}

constexpr const char* kGenerated = "// Generated from the operator's definition.\n";

std::string HeaderName(const OpSpec& spec) {
  return "aclnnop/aclnn_" + SnakeCase(spec.type) + ".h";
}

}  // namespace

std::string AclnnHeader(const OpSpec& spec) {
  std::ostringstream out;
  out << kGenerated << "#pragma once\n\n#include \"aclnn/aclnn_base.h\"\n\n"
      << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
      << "// The first phase of " << spec.type << ": checks the call and gives the workspace that\n"
      << "// it needs and its executor. Returns 0, or 161001 (a required argument is null),\n"
      << "// 161002 (an argument is invalid), 561002 (tiling has failed).\n//\n";
  for (const Parameter& parameter : Parameters(spec)) {
    out << "// " << parameter.name << ": " << Note(parameter) << "\n";
  }
  out << "ACL_FUNC_VISIBILITY " << FirstPhase(spec) << ";\n\n"
      << "// The second phase: puts the operator into the stream.\n"
      << "ACL_FUNC_VISIBILITY " << SecondPhase(spec) << ";\n\n"
      << "#ifdef __cplusplus\n}\n#endif\n";
  return out.str();
}

std::string AclnnSource(const OpSpec& spec) {
  const std::string name = "aclnn" + spec.type;
  std::ostringstream out;
  out << kGenerated << "#include \"" << HeaderName(spec) << "\"\n\n"
      << "#include \"twin/host/op_call.h\"\n\n"
      << FirstPhase(spec) << " {\n"
      << "  twin::OpCall call(\"" << name << "GetWorkspaceSize\", \"" << spec.type << "\");\n";
  for (const Parameter& parameter : CallArguments(spec)) {
    // A char* would convert to bool before it converts to const char*.
    const bool text = parameter.kind == AclnnKind::kString;
    out << "  call." << parameter.role_name() << "(\"" << parameter.name << "\", "
        << (text ? "static_cast<const char*>(" + parameter.name + ")" : parameter.name) << ");\n";
  }
  out << "  return call.Prepare(workspaceSize, executor);\n}\n\n"
      << SecondPhase(spec) << " {\n"
      << "  return twin::RunExecutor(\"" << name
      << "\", workspace, workspaceSize, executor, stream);\n}\n";
  return out.str();
}

namespace {

// The initializer of an AclnnParameter.
void WriteParameter(const Parameter& parameter, std::ostringstream& out) {
  const std::string& comment = parameter.comment();
  out << "     {" << std::quoted(parameter.name) << ", "
      << std::quoted(comment.empty() ? SnakeCase(parameter.defined_name()) : comment)
      << ", AclnnRole::k" << parameter.role_name() << ", AclnnKind::k"
      << kKinds[static_cast<int>(parameter.kind)] << ", " << (parameter.optional ? "true" : "false")
      << ", {";
  if (parameter.kind == AclnnKind::kTensor) {
    for (ge::DataType dtype : parameter.param->dtypes) {
      out << "aclDataType(" << static_cast<int>(dtype) << "), ";
    }
  }
  out << "}";
  if (parameter.ref()) out << ", 0, 0, \"\", true";
  if (parameter.attr != nullptr) {
    out << ", " << parameter.attr->int_value << ", " << parameter.attr->float_value << ", "
        << std::quoted(parameter.attr->string_value);
  }
  out << "},\n";
}

}  // namespace

std::string AclnnFunctionList(const std::vector<const OpSpec*>& specs) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::setprecision(std::numeric_limits<double>::max_digits10)
      << "// Generated from the operators' definitions.\n";
  for (const OpSpec* spec : specs) {
    const std::vector<Parameter> parameters = Parameters(*spec);
    out << "    {" << std::quoted(spec->type) << ", {\n";
    for (const Parameter& parameter : parameters) WriteParameter(parameter, out);
    out << "    },\n     [](void* function, const AclnnValue* values, uint64_t* workspace_size,\n"
        << "        aclOpExecutor** executor) {\n"
        << "       using Function = aclnnStatus (*)(\n";
    for (const Parameter& parameter : parameters) {
      out << "           " << parameter.declaration() << ",\n";
    }
    out << "           uint64_t*, aclOpExecutor**);\n"
        << "       return reinterpret_cast<Function>(function)(\n";
    size_t index = 0;
    for (const Parameter& parameter : parameters) {
      const std::string value =
          "values[" + std::to_string(index++) + "]." + kMembers[static_cast<int>(parameter.kind)];
      out << "           " << (parameter.ref() ? "const_cast<aclTensor*>(" + value + ")" : value)
          << ",\n";
    }
    out << "           workspace_size, executor);\n     }},\n";
  }
  return out.str();
}

}  // namespace twin
