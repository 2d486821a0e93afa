#include "twin/host/opbuild.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "register/tilingdata_base.h"
#include "twin/host/registry.h"
#include "twin/host/template_key.h"
#include "twin/host/template_values.h"

namespace twin {

namespace {

std::string Capitals(const std::string& name) {
  std::string result;
  for (char c : name) result += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

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

// A kernel is called with these.
std::string Arguments(const OpSpec& spec) {
  const size_t count = spec.inputs.size() + spec.outputs.size() + 2;  // workspace, tiling
  std::string list;
  for (size_t a = 0; a < count; ++a) {
    list += (a == 0 ? "(" : ", ") + ("static_cast<GM_ADDR>(arguments[" + std::to_string(a) + "])");
  }
  return list + ")";
}

void WriteDtypes(const char* name, const std::vector<ParamSpec>& params, size_t combination,
                 std::ostringstream& out) {
  out << "static constexpr uint64_t " << name << "[] = {";
  for (const ParamSpec& param : params) out << static_cast<int>(param.dtypes[combination]) << ", ";
  out << "0};\n";
}

// A kernel that is a template: TwinCall runs the instance of the launch's tiling key.
void WriteInstances(const OpSpec& spec, size_t combination, const std::string& name,
                    const TilingDeclareParams& parameters, std::ostringstream& out) {
  WriteDtypes("twin_inputs", spec.inputs, combination, out);
  WriteDtypes("twin_outputs", spec.outputs, combination, out);
  out << "template <size_t index>\n"
      << "static bool TwinTry(uint64_t key, void* const* arguments) {\n"
      << "  constexpr twin::TemplateChoice choice = twin::Combination(\n"
      << "      twin_declared, twin_selected, index, twin_inputs, twin_outputs);\n"
      << "  static_assert(choice.count == " << parameters.size()
      << ", \"every ASCENDC_TPL_ARGS_SEL names each parameter of ASCENDC_TPL_ARGS_DECL\");\n"
      << "  if constexpr (choice.built) {\n"
      << "    if (key != choice.key) return false;\n"
      << "    twin::DeclareTemplateType(choice.kernel_type);\n    " << name << "<";
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string value = "choice.values[" + std::to_string(i) + "]";
    const bool type = std::string(parameters[i].name).rfind("typename ", 0) == 0;
    out << (i == 0 ? "" : ", ");
    if (type) {
      out << "typename twin::TypeFromId<" << value << ">::type";
    } else if (parameters[i].paramType == kTemplateBool) {
      out << "(" << value << " != 0)";
    } else {
      out << "static_cast<int>(" << value << ")";
    }
  }
  out << ">" << Arguments(spec) << ";\n    return true;\n  }\n  return false;\n}\n"
      << "template <size_t... index>\n"
      << "static void TwinCall(void* const* arguments, std::index_sequence<index...>) {\n"
      << "  const uint64_t key = TILING_KEY_VAR;\n"
      << "  if (!(TwinTry<index>(key, arguments) || ...)) twin::NoCombination(key);\n}\n\n";
}

}  // namespace

std::string KernelSource(const OpSpec& spec, size_t combination, const std::string& kernel_file) {
  const std::string entry = SnakeCase(spec.type);
  const std::string name = entry + "_" + std::to_string(combination);
  std::ostringstream out;
  out << "// Generated from the operator's definition.\n";
  if (FindTemplate(spec.type) != nullptr) {
    out << "#define ASCENDC_TPL_KERNEL\n"
        << "#include \"ascendc/host_api/tiling/template_argument.h\"\n";
  }
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
  out << "#include \"" << kernel_file << "\"\n\n";
  const TilingDeclareParams* const parameters = FindTemplate(spec.type);
  if (parameters != nullptr) WriteInstances(spec, combination, name, *parameters, out);
  out << "static const twin::KernelRegistration registration(\n    \"" << spec.type << "\", "
      << combination << ", \"" << entry << "\", [](void* const* arguments) {\n      "
      << (parameters != nullptr
              ? "TwinCall(arguments, std::make_index_sequence<twin::Combinations(twin_selected)>())"
              : name + Arguments(spec))
      << ";\n    });\n\n}  // namespace kernel_" << name << "\n";
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

void WriteOperators(const std::string& folder, const std::string& kernel_prefix, size_t units) {
  const std::filesystem::path root(folder);
  const std::filesystem::path headers = root / "include" / "aclnnop";
  std::filesystem::create_directories(headers);
  std::set<std::filesystem::path> kept;
  std::vector<const OpSpec*> written;
  for (const std::string& name : OperatorNames()) {
    const OpSpec& spec = *FindOperator(name);
    if (FindKernel(name, 0) != nullptr) continue;
    if (units > 0 && spec.combinations > units) {
      throw std::invalid_argument(
          "definition of " + name + ": it has " + std::to_string(spec.combinations) +
          " combinations of dtypes, the build is for at most " + std::to_string(units));
    }
    const std::string snake = SnakeCase(name);
    const std::filesystem::path header = headers / ("aclnn_" + snake + ".h");
    WriteIfChanged(header, AclnnHeader(spec));
    kept.insert(header);
    const std::string& file = spec.kernel_file;
    WriteIfChanged(root / ("aclnn_" + file + ".cc"), AclnnSource(spec));
    for (size_t i = 0; i < std::max(units, spec.combinations); ++i) {
      const std::string kernel_file = kernel_prefix + file + "/op_kernel/" + file + ".cpp";
      WriteIfChanged(root / (file + "_kernel_" + std::to_string(i) + ".cc"),
                     i < spec.combinations ? KernelSource(spec, i, kernel_file)
                                           : "// The operator has fewer combinations of dtypes.\n");
    }
    written.push_back(&spec);
  }
  // One of an operator that is gone could be found before another header of its name.
  for (const auto& entry : std::filesystem::directory_iterator(headers)) {
    if (kept.count(entry.path()) == 0) std::filesystem::remove(entry.path());
  }
  WriteIfChanged(root / "aclnn_functions.inc", AclnnFunctionList(written));
}

}  // namespace twin
