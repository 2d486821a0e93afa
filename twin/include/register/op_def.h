// Definition of an operator: tensors, attributes, the products it runs on, its host functions.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/types.h"
#include "register/op_impl_registry.h"

namespace twin {
struct DefAccess;
}

namespace ops {

enum Option { IGNORE = 0, OPTIONAL = 1, REQUIRED = 2, DYNAMIC = 3, VIRTUAL = 4 };
enum class DependScope : uint32_t { ALL = 0, TILING = 1, INVALID_SCOPE };
enum class FollowType : uint32_t { ALL = 0, DTYPE = 1, FORMAT = 2, SHAPE = 3, INVALID_TYPE };

// An input or output. The i-th entries of the dtype and format lists of all of them belong
// together: they are the i-th combination that the operator takes.
class TWIN_API OpParamDef {
 public:
  explicit OpParamDef(const char* name) : name_(name) {}

  OpParamDef& ParamType(Option type);
  OpParamDef& DataType(std::vector<ge::DataType> types);
  OpParamDef& Format(std::vector<ge::Format> formats);
  OpParamDef& UnknownShapeFormat(std::vector<ge::Format> formats);
  // The values are known on the host, where the caller passes an array instead of a tensor.
  OpParamDef& ValueDepend(Option depend);
  OpParamDef& ValueDepend(Option depend, DependScope scope);
  // A tensor with gaps is copied into one without; or handed to the kernel as it is.
  OpParamDef& AutoContiguous();
  OpParamDef& IgnoreContiguous();
  // Dtypes and formats of another parameter.
  OpParamDef& Follow(const char* name);
  OpParamDef& Follow(const char* name, FollowType type);
  // The output holds this value in every element before the kernel runs.
  OpParamDef& InitValue(uint64_t value);
  OpParamDef& Comment(const char* comment);

 private:
  friend struct twin::DefAccess;

  std::string name_;
  Option type_ = REQUIRED;
  std::vector<ge::DataType> dtypes_;
  std::vector<ge::Format> formats_;
  Option value_depend_ = IGNORE;
  bool auto_contiguous_ = false;
  bool ignore_contiguous_ = false;
  std::string follow_;
  FollowType follow_type_ = FollowType::INVALID_TYPE;
  bool has_init_value_ = false;
  uint64_t init_value_ = 0;
  std::string comment_;
};

class TWIN_API OpAttrDef {
 public:
  explicit OpAttrDef(const char* name) : name_(name) {}

  OpAttrDef& AttrType(Option type);
  OpAttrDef& Bool();
  OpAttrDef& Bool(bool value);
  OpAttrDef& Float();
  OpAttrDef& Float(float value);
  OpAttrDef& Int();
  OpAttrDef& Int(int64_t value);
  OpAttrDef& String();
  OpAttrDef& String(const char* value);
  OpAttrDef& ListInt();
  OpAttrDef& ListInt(std::vector<int64_t> value);
  OpAttrDef& ListFloat();
  OpAttrDef& ListFloat(std::vector<float> value);
  OpAttrDef& ListBool();
  OpAttrDef& ListBool(std::vector<bool> value);
  OpAttrDef& Comment(const char* comment);
  ge::AscendString GetName() const { return name_.c_str(); }
  bool IsRequired() const { return required_; }

 private:
  friend struct twin::DefAccess;
  enum class Kind { kUnset, kBool, kFloat, kInt, kString, kListInt, kListFloat, kListBool };

  std::string name_;
  Kind kind_ = Kind::kUnset;
  bool required_ = true;
  bool has_default_ = false;
  int64_t int_ = 0;  // or a bool
  float float_ = 0;
  std::string string_;
  std::vector<int64_t> ints_;
  std::vector<float> floats_;
  std::vector<bool> bools_;
  std::string comment_;
};

// The differences of one product.
class TWIN_API OpAICoreConfig {
 public:
  OpAICoreConfig() = default;
  explicit OpAICoreConfig(const char* soc) : soc_(soc) {}

  // A parameter whose dtypes and formats here replace those of the definition.
  OpParamDef& Input(const char* name);
  OpParamDef& Output(const char* name);
  OpAICoreConfig& DynamicCompileStaticFlag(bool flag);
  OpAICoreConfig& DynamicFormatFlag(bool flag);
  OpAICoreConfig& DynamicRankSupportFlag(bool flag);
  OpAICoreConfig& DynamicShapeSupportFlag(bool flag);
  OpAICoreConfig& NeedCheckSupportFlag(bool flag);
  OpAICoreConfig& PrecisionReduceFlag(bool flag);
  OpAICoreConfig& ExtendCfgInfo(const char* key, const char* value);

 private:
  friend struct twin::DefAccess;

  std::string soc_;
  std::deque<OpParamDef> inputs_, outputs_;
  std::map<std::string, std::string> values_;
};

class TWIN_API OpAICoreDef {
 public:
  OpAICoreDef& SetTiling(gert::OpImplRegisterV2::TilingKernelFunc function);
  OpAICoreDef& AddConfig(const char* soc);
  OpAICoreDef& AddConfig(const char* soc, OpAICoreConfig& config);
  // Without this a call whose outputs are all empty runs nothing.
  OpAICoreDef& LaunchWithZeroEleOutputTensors(bool launch);

 private:
  friend struct twin::DefAccess;

  gert::OpImplRegisterV2::TilingKernelFunc tiling_ = nullptr;
  std::map<std::string, OpAICoreConfig> configs_;
  bool launch_empty_ = false;
};

class TWIN_API OpDef {
 public:
  explicit OpDef(const char* type) : type_(type) {}

  OpParamDef& Input(const char* name);
  OpParamDef& Output(const char* name);
  OpAttrDef& Attr(const char* name);
  OpDef& Comment(const char* comment);
  OpDef& SetInferShape(gert::OpImplRegisterV2::InferShapeKernelFunc function);
  OpDef& SetInferDataType(gert::OpImplRegisterV2::InferDataTypeKernelFunc function);
  OpAICoreDef& AICore() { return ai_core_; }

 private:
  friend struct twin::DefAccess;

  std::string type_;
  std::deque<OpParamDef> inputs_, outputs_;
  std::deque<OpAttrDef> attrs_;
  gert::OpImplRegisterV2::InferShapeKernelFunc infer_shape_ = nullptr;
  gert::OpImplRegisterV2::InferDataTypeKernelFunc infer_data_type_ = nullptr;
  OpAICoreDef ai_core_;
};

}  // namespace ops

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
