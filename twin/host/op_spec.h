// A definition as the twin uses it: combinations resolved, everything checked.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "register/op_def.h"

namespace twin {

struct ParamSpec {
  std::string name;
  std::string comment;
  bool optional = false;
  bool value_depend = false;
  bool auto_contiguous = false;
  bool ignore_contiguous = false;
  bool has_init_value = false;
  uint64_t init_value = 0;
  // The place of the output, or input, of the same name, whose memory it shares; -1: there is none.
  int ref = -1;
  // [combinations]
  std::vector<ge::DataType> dtypes;
  std::vector<ge::Format> formats;
};

enum class AttrKind { kBool, kFloat, kInt, kString, kListInt, kListFloat, kListBool };

struct AttrSpec {
  std::string name;
  std::string comment;
  AttrKind kind = AttrKind::kInt;
  bool required = true;
  int64_t int_value = 0;  // the default, of an int or a bool
  float float_value = 0;
  std::string string_value;
  std::vector<int64_t> int_values;
  std::vector<float> float_values;
  std::vector<uint8_t> bool_values;
};

struct OpSpec {
  std::string type;
  std::string kernel_file;  // without its suffix
  std::vector<ParamSpec> inputs, outputs;
  std::vector<AttrSpec> attrs;
  size_t combinations = 0;
  bool launch_empty = false;
  gert::OpImplRegisterV2::InferShapeKernelFunc infer_shape = nullptr;
  gert::OpImplRegisterV2::InferDataTypeKernelFunc infer_data_type = nullptr;
  gert::OpImplRegisterV2::TilingKernelFunc tiling = nullptr;
  gert::OpImplRegisterV2::TilingParseFunc tiling_parse = nullptr;
  gert::OpImplRegisterV2::CompileInfoCreatorFunc create_compile_info = nullptr;
  gert::OpImplRegisterV2::CompileInfoDeleterFunc delete_compile_info = nullptr;
};

// The definition on the product `soc` ("ascend910b", "ascend910_93"). Throws std::invalid_argument,
// naming operator and parameter, where the definition is inconsistent or not for that product.
OpSpec SpecOf(const ops::OpDef& def, const char* soc);

// The only code that looks into definitions.
struct DefAccess {
  template <class Def>
  static Def& Named(std::deque<Def>& defs, const char* name);
  static ParamSpec Param(const ops::OpParamDef& def);
  static AttrSpec Attr(const std::string& op, const ops::OpAttrDef& def);
  static void Replace(const std::deque<ops::OpParamDef>& from, std::vector<ParamSpec>* to);
  static void Follow(const std::string& op, const ops::OpDef& def, OpSpec* spec);
  static OpSpec Spec(const ops::OpDef& def, const char* soc);
};

// "ScaleAdd" -> "scale_add": the name of its kernel and of its aclnn header.
std::string SnakeCase(const std::string& op_type);

}  // namespace twin
