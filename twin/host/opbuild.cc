#include "twin/host/opbuild.h"

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "register/tilingdata_base.h"
#include "twin/host/registry.h"

namespace twin {

namespace {

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

std::string Capitals(const std::string& name) {
  std::string result;
  for (char c : name) result += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

// A parameter of the first phase.
struct Parameter {
  std::string type, name, kind, note;
};

const char* ArrayOf(ge::DataType dtype) {
  return dtype == ge::DT_FLOAT  ? "aclFloatArray"
         : dtype == ge::DT_BOOL ? "aclBoolArray"
                                : "aclIntArray";
}

Parameter InputParameter(const ParamSpec& input) {
  const std::string suffix = input.optional ? "Optional" : "";
  const char* type = input.value_depend ? ArrayOf(input.dtypes[0]) : "aclTensor";
  return {std::string("const ") + type + "* ", CamelCase(input.name) + suffix, "Input",
          input.optional ? "optional input" : "input"};
}

Parameter AttrParameter(const AttrSpec& attr) {
  constexpr const char* kTypes[] = {"bool ",
                                    "double ",
                                    "int64_t ",
                                    "char* ",
                                    "const aclIntArray* ",
                                    "const aclFloatArray* ",
                                    "const aclBoolArray* "};
  const bool may_be_null = attr.kind >= AttrKind::kString;
  const std::string suffix = !attr.required && may_be_null ? "Optional" : "";
  return {kTypes[static_cast<int>(attr.kind)], CamelCase(attr.name) + suffix, "Attr",
          attr.required ? "attribute" : "optional attribute"};
}

// CANN's order: inputs, attributes, outputs, each as in the definition. A sole output is "out".
std::vector<Parameter> Parameters(const OpSpec& spec) {
  std::vector<Parameter> parameters;
  for (const ParamSpec& input : spec.inputs) parameters.push_back(InputParameter(input));
  for (const AttrSpec& attr : spec.attrs) parameters.push_back(AttrParameter(attr));
  for (const ParamSpec& output : spec.outputs) {
    const std::string name = spec.outputs.size() == 1 ? "out" : CamelCase(output.name) + "Out";
    parameters.push_back({"const aclTensor* ", name + (output.optional ? "Optional" : ""), "Output",
                          output.optional ? "optional output" : "output"});
  }
  return parameters;
}

std::string FirstPhase(const OpSpec& spec) {
  std::string text = "aclnnStatus aclnn" + spec.type + "GetWorkspaceSize(\n";
  for (const Parameter& parameter : Parameters(spec)) {
    text += "    " + parameter.type + parameter.name + ",\n";
  }
  return text + "    uint64_t* workspaceSize,\n    aclOpExecutor** executor)";
}

std::string SecondPhase(const OpSpec& spec) {
  return "aclnnStatus aclnn" + spec.type +
         "(\n    void* workspace,\n    uint64_t workspaceSize,\n    aclOpExecutor* executor,\n"
         "    aclrtStream stream)";
}

constexpr const char* kGenerated = "// Generated from the operator's definition.\n";

}  // namespace

std::string AclnnHeader(const OpSpec& spec) {
  std::ostringstream out;
  out << kGenerated << "#pragma once\n\n#include \"aclnn/aclnn_base.h\"\n\n"
      << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
      << "// The first phase of " << spec.type << ": checks the call and gives the workspace that\n"
      << "// it needs and its executor. Returns 0, or 161001 (a required argument is null),\n"
      << "// 161002 (an argument is invalid), 561002 (tiling has failed).\n//\n";
  for (const Parameter& parameter : Parameters(spec)) {
    out << "// " << parameter.name << ": " << parameter.note << "\n";
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
  out << kGenerated << "#include \"aclnnop/aclnn_" << SnakeCase(spec.type) << ".h\"\n\n"
      << "#include \"twin/host/op_call.h\"\n\n"
      << FirstPhase(spec) << " {\n"
      << "  twin::OpCall call(\"" << name << "GetWorkspaceSize\", \"" << spec.type << "\");\n";
  for (const Parameter& parameter : Parameters(spec)) {
    // A char* would convert to bool before it converts to const char*.
    const bool text = parameter.type == "char* ";
    out << "  call." << parameter.kind << "(\"" << parameter.name << "\", "
        << (text ? "static_cast<const char*>(" + parameter.name + ")" : parameter.name) << ");\n";
  }
  out << "  return call.Prepare(workspaceSize, executor);\n}\n\n"
      << SecondPhase(spec) << " {\n"
      << "  return twin::RunExecutor(\"" << name
      << "\", workspace, workspaceSize, executor, stream);\n}\n";
  return out.str();
}

namespace {

struct TypeName {
  ge::DataType dtype;
  const char* constant;
  const char* type;
};

constexpr TypeName kTypeNames[] = {
    {ge::DT_FLOAT, "DT_FLOAT", "float"},      {ge::DT_FLOAT16, "DT_FLOAT16", "half"},
    {ge::DT_BF16, "DT_BF16", "bfloat16_t"},   {ge::DT_INT8, "DT_INT8", "int8_t"},
    {ge::DT_UINT8, "DT_UINT8", "uint8_t"},    {ge::DT_INT16, "DT_INT16", "int16_t"},
    {ge::DT_UINT16, "DT_UINT16", "uint16_t"}, {ge::DT_INT32, "DT_INT32", "int32_t"},
    {ge::DT_UINT32, "DT_UINT32", "uint32_t"}, {ge::DT_INT64, "DT_INT64", "int64_t"},
    {ge::DT_UINT64, "DT_UINT64", "uint64_t"}, {ge::DT_DOUBLE, "DT_DOUBLE", "double"},
    {ge::DT_BOOL, "DT_BOOL", "bool"},
};

const TypeName& TypeNameOf(const OpSpec& spec, const ParamSpec& param, size_t combination) {
  for (const TypeName& name : kTypeNames) {
    if (name.dtype == param.dtypes[combination]) return name;
  }
  throw std::invalid_argument("definition of " + spec.type + ": " + param.name +
                              " has a dtype that kernels of the twin do not have");
}

// Macro-style tiling data as the struct that the kernel reads; structs it holds come first.
void WriteTilingStruct(const std::string& op_type, std::set<std::string>* written,
                       std::ostringstream& out) {
  const auto data =
      optiling::CTilingDataClassFactory::GetInstance().CreateTilingDataInstance(op_type.c_str());
  if (data == nullptr || !written->insert(data->GetTilingClassName()).second) return;
  std::ostringstream fields;
  for (const optiling::FieldInfo& field : data->GetFieldInfo()) {
    // A struct is registered under its own name with "Op" behind it.
    WriteTilingStruct(field.type + "Op", written, out);
    fields << "  " << field.type << " " << field.name;
    if (field.count > 0) fields << "[" << field.count << "]";
    fields << ";\n";
  }
  out << "struct " << data->GetTilingClassName() << " {\n" << fields.str() << "};\n\n";
}

// Macros that tell the kernel the dtypes of one combination.
void WriteDefines(const OpSpec& spec, size_t combination, std::ostringstream& out) {
  for (const std::vector<ParamSpec>* params : {&spec.inputs, &spec.outputs}) {
    for (const ParamSpec& param : *params) {
      const TypeName& name = TypeNameOf(spec, param, combination);
      const std::string upper = Capitals(param.name);
      out << "#define DTYPE_" << upper << " " << name.type << "\n"
          << "#define ORIG_DTYPE_" << upper << " " << name.constant << "\n"
          << "#define FORMAT_" << upper << " " << param.formats[combination] << "\n";
    }
  }
}

// Headers that a kernel's own ones may include, which must not be seen first inside a namespace.
constexpr const char* kBefore[] = {"<algorithm>",
                                   "<array>",
                                   "<cmath>",
                                   "<cstddef>",
                                   "<cstdint>",
                                   "<cstring>",
                                   "<initializer_list>",
                                   "<limits>",
                                   "<tuple>",
                                   "<type_traits>",
                                   "<utility>",
                                   "\"kernel_operator.h\"",
                                   "\"twin/host/kernel_registration.h\""};

// The structs of macro-style tiling data, of which one is the operator's.
void WriteTiling(const OpSpec& spec, std::ostringstream& out) {
  std::set<std::string> written;
  WriteTilingStruct(spec.type, &written, out);
  if (written.empty()) return;
  const auto data =
      optiling::CTilingDataClassFactory::GetInstance().CreateTilingDataInstance(spec.type.c_str());
  out << "using TwinDefaultTiling = " << data->GetTilingClassName() << ";\n\n";
}

}  // namespace

std::string KernelSource(const OpSpec& spec, size_t combination, const std::string& kernel_file) {
  const std::string entry = SnakeCase(spec.type);
  const std::string name = entry + "_" + std::to_string(combination);
  const size_t arguments = spec.inputs.size() + spec.outputs.size() + 2;  // workspace, tiling
  std::ostringstream out;
  out << kGenerated;
  for (const char* header : kBefore) out << "#include " << header << "\n";
  out << "\n// For the preprocessor, which does not see enumerators.\n";
  for (const TypeName& type : kTypeNames) {
    out << "#define " << type.constant << " " << static_cast<int>(type.dtype) << "\n";
  }
  WriteDefines(spec, combination, out);
  // The kernels of all combinations are linked into one library, and what they define has the same
  // names in each. A kernel that adds to AscendC still finds what is there.
  out << "#define " << entry << " " << name << "\n\nnamespace kernel_" << name << " {\n"
      << "namespace AscendC {\nusing namespace ::AscendC;\n}\n\n";
  WriteTiling(spec, out);
  out << "#include \"" << kernel_file << "\"\n\n"
      << "static const twin::KernelRegistration registration(\n    \"" << spec.type << "\", "
      << combination << ", \"" << entry << "\", [](void* const* arguments) {\n      " << name
      << "(";
  for (size_t a = 0; a < arguments; ++a) {
    out << (a == 0 ? "" : ", ") << "static_cast<GM_ADDR>(arguments[" << a << "])";
  }
  out << ");\n    });\n\n}  // namespace kernel_" << name << "\n";
  return out.str();
}

namespace {

void WriteIfChanged(const std::filesystem::path& path, const std::string& text) {
  std::ifstream old(path, std::ios::binary);
  if (old) {
    std::ostringstream content;
    content << old.rdbuf();
    if (content.str() == text) return;
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

void WriteOperators(const std::string& folder, const std::string& kernel_prefix,
                    size_t most_combinations) {
  const std::filesystem::path root(folder);
  std::filesystem::create_directories(root / "include" / "aclnnop");
  for (const std::string& name : OperatorNames()) {
    const OpSpec& spec = *FindOperator(name);
    if (FindKernel(name, 0) != nullptr) continue;
    if (spec.combinations > most_combinations) {
      throw std::invalid_argument(
          "definition of " + name + ": it has " + std::to_string(spec.combinations) +
          " combinations of dtypes, the build is for at most " + std::to_string(most_combinations));
    }
    const std::string snake = SnakeCase(name);
    WriteIfChanged(root / "include" / "aclnnop" / ("aclnn_" + snake + ".h"), AclnnHeader(spec));
    WriteIfChanged(root / ("aclnn_" + snake + ".cc"), AclnnSource(spec));
    for (size_t i = 0; i < spec.combinations; ++i) {
      WriteIfChanged(root / (snake + "_kernel_" + std::to_string(i) + ".cc"),
                     KernelSource(spec, i, kernel_prefix + snake + "/op_kernel/" + snake + ".cpp"));
    }
  }
}

}  // namespace twin
