// The setters of an operator's definition.
#include "register/op_def.h"

#include "twin/host/op_spec.h"

namespace ops {

OpParamDef& OpParamDef::ParamType(Option type) {
  type_ = type;
  return *this;
}

OpParamDef& OpParamDef::DataType(std::vector<ge::DataType> types) {
  dtypes_ = std::move(types);
  return *this;
}

OpParamDef& OpParamDef::Format(std::vector<ge::Format> formats) {
  formats_ = std::move(formats);
  return *this;
}

OpParamDef& OpParamDef::UnknownShapeFormat(std::vector<ge::Format>) { return *this; }

OpParamDef& OpParamDef::ValueDepend(Option depend) {
  value_depend_ = depend;
  return *this;
}

OpParamDef& OpParamDef::ValueDepend(Option depend, DependScope) { return ValueDepend(depend); }

OpParamDef& OpParamDef::AutoContiguous() {
  auto_contiguous_ = true;
  return *this;
}

OpParamDef& OpParamDef::IgnoreContiguous() {
  ignore_contiguous_ = true;
  return *this;
}

OpParamDef& OpParamDef::Follow(const char* name) { return Follow(name, FollowType::ALL); }

OpParamDef& OpParamDef::Follow(const char* name, FollowType type) {
  follow_ = name;
  follow_type_ = type;
  return *this;
}

OpParamDef& OpParamDef::InitValue(uint64_t value) {
  has_init_value_ = true;
  init_value_ = value;
  return *this;
}

OpParamDef& OpParamDef::Comment(const char* comment) {
  comment_ = comment == nullptr ? "" : comment;
  return *this;
}

OpAttrDef& OpAttrDef::AttrType(Option type) {
  required_ = type == REQUIRED;
  return *this;
}

OpAttrDef& OpAttrDef::Bool() {
  kind_ = Kind::kBool;
  return *this;
}

OpAttrDef& OpAttrDef::Bool(bool value) {
  int_ = value ? 1 : 0;
  has_default_ = true;
  return Bool();
}

OpAttrDef& OpAttrDef::Float() {
  kind_ = Kind::kFloat;
  return *this;
}

OpAttrDef& OpAttrDef::Float(float value) {
  float_ = value;
  has_default_ = true;
  return Float();
}

OpAttrDef& OpAttrDef::Int() {
  kind_ = Kind::kInt;
  return *this;
}

OpAttrDef& OpAttrDef::Int(int64_t value) {
  int_ = value;
  has_default_ = true;
  return Int();
}

OpAttrDef& OpAttrDef::String() {
  kind_ = Kind::kString;
  return *this;
}

OpAttrDef& OpAttrDef::String(const char* value) {
  string_ = value == nullptr ? "" : value;
  has_default_ = true;
  return String();
}

OpAttrDef& OpAttrDef::ListInt() {
  kind_ = Kind::kListInt;
  return *this;
}

OpAttrDef& OpAttrDef::ListInt(std::vector<int64_t> value) {
  ints_ = std::move(value);
  has_default_ = true;
  return ListInt();
}

OpAttrDef& OpAttrDef::ListFloat() {
  kind_ = Kind::kListFloat;
  return *this;
}

OpAttrDef& OpAttrDef::ListFloat(std::vector<float> value) {
  floats_ = std::move(value);
  has_default_ = true;
  return ListFloat();
}

OpAttrDef& OpAttrDef::ListBool() {
  kind_ = Kind::kListBool;
  return *this;
}

OpAttrDef& OpAttrDef::ListBool(std::vector<bool> value) {
  bools_ = std::move(value);
  has_default_ = true;
  return ListBool();
}

OpAttrDef& OpAttrDef::Comment(const char* comment) {
  comment_ = comment == nullptr ? "" : comment;
  return *this;
}

OpAICoreConfig& OpAICoreConfig::DynamicCompileStaticFlag(bool flag) {
  return ExtendCfgInfo("dynamicCompileStatic.flag", flag ? "true" : "false");
}

OpAICoreConfig& OpAICoreConfig::DynamicFormatFlag(bool flag) {
  return ExtendCfgInfo("dynamicFormat.flag", flag ? "true" : "false");
}

OpAICoreConfig& OpAICoreConfig::DynamicRankSupportFlag(bool flag) {
  return ExtendCfgInfo("dynamicRankSupport.flag", flag ? "true" : "false");
}

OpAICoreConfig& OpAICoreConfig::DynamicShapeSupportFlag(bool flag) {
  return ExtendCfgInfo("dynamicShapeSupport.flag", flag ? "true" : "false");
}

OpAICoreConfig& OpAICoreConfig::NeedCheckSupportFlag(bool flag) {
  return ExtendCfgInfo("needCheckSupport.flag", flag ? "true" : "false");
}

OpAICoreConfig& OpAICoreConfig::PrecisionReduceFlag(bool flag) {
  return ExtendCfgInfo("precision_reduce.flag", flag ? "true" : "false");
}

OpAICoreConfig& OpAICoreConfig::ExtendCfgInfo(const char* key, const char* value) {
  values_[key] = value;
  return *this;
}

OpAICoreDef& OpAICoreDef::SetTiling(gert::OpImplRegisterV2::TilingKernelFunc function) {
  tiling_ = function;
  return *this;
}

OpAICoreDef& OpAICoreDef::AddConfig(const char* soc) {
  configs_.emplace(soc, OpAICoreConfig(soc));
  return *this;
}

OpAICoreDef& OpAICoreDef::AddConfig(const char* soc, OpAICoreConfig& config) {
  configs_.insert_or_assign(soc, config);
  return *this;
}

OpAICoreDef& OpAICoreDef::LaunchWithZeroEleOutputTensors(bool launch) {
  launch_empty_ = launch;
  return *this;
}

OpDef& OpDef::Comment(const char*) { return *this; }

OpDef& OpDef::SetInferShape(gert::OpImplRegisterV2::InferShapeKernelFunc function) {
  infer_shape_ = function;
  return *this;
}

OpDef& OpDef::SetInferDataType(gert::OpImplRegisterV2::InferDataTypeKernelFunc function) {
  infer_data_type_ = function;
  return *this;
}

}  // namespace ops

namespace twin {

// A second call with a name goes on with the first one's definition. A deque, because the
// reference that a call returned stays good while others are added.
template <class Def>
Def& DefAccess::Named(std::deque<Def>& defs, const char* name) {
  for (Def& def : defs) {
    if (def.name_ == name) return def;
  }
  return defs.emplace_back(name);
}

}  // namespace twin

namespace ops {

OpParamDef& OpAICoreConfig::Input(const char* name) {
  return twin::DefAccess::Named(inputs_, name);
}

OpParamDef& OpAICoreConfig::Output(const char* name) {
  return twin::DefAccess::Named(outputs_, name);
}

OpParamDef& OpDef::Input(const char* name) { return twin::DefAccess::Named(inputs_, name); }

OpParamDef& OpDef::Output(const char* name) { return twin::DefAccess::Named(outputs_, name); }

OpAttrDef& OpDef::Attr(const char* name) { return twin::DefAccess::Named(attrs_, name); }

}  // namespace ops
