#include "twin/host/op_spec.h"

#include <cctype>
#include <stdexcept>

namespace twin {

namespace {

[[noreturn]] void Invalid(const std::string& op, const std::string& what) {
  throw std::invalid_argument("definition of " + op + ": " + what);
}

std::vector<ParamSpec*> AllParams(OpSpec* spec) {
  std::vector<ParamSpec*> params;
  for (ParamSpec& param : spec->inputs) params.push_back(&param);
  for (ParamSpec& param : spec->outputs) params.push_back(&param);
  return params;
}

// Every list has one entry for each combination; formats that are left out are ND.
void CheckCombinations(OpSpec* spec) {
  for (ParamSpec* param : AllParams(spec)) {
    if (param->dtypes.empty()) Invalid(spec->type, param->name + " has no DataType");
    if (spec->combinations == 0) spec->combinations = param->dtypes.size();
    if (param->formats.empty()) param->formats.assign(spec->combinations, ge::FORMAT_ND);
    for (size_t count : {param->dtypes.size(), param->formats.size()}) {
      if (count == spec->combinations) continue;
      Invalid(spec->type, param->name + " has " + std::to_string(count) +
                              " dtypes or formats, the first parameter has " +
                              std::to_string(spec->combinations));
    }
    for (ge::DataType dtype : param->dtypes) {
      if (ge::GetSizeByDataType(dtype) > 0) continue;
      Invalid(spec->type, param->name + ": the twin has no dtype " + std::to_string(dtype));
    }
    if (param->auto_contiguous && param->ignore_contiguous) {
      Invalid(spec->type, param->name + " is both AutoContiguous and IgnoreContiguous");
    }
  }
  for (const ParamSpec& output : spec->outputs) {
    if (output.value_depend) Invalid(spec->type, "output " + output.name + " has ValueDepend");
  }
}

// An input that is also an output is one parameter of the aclnn function, of one tensor.
void PairRefs(OpSpec* spec) {
  for (size_t i = 0; i < spec->inputs.size(); ++i) {
    ParamSpec& input = spec->inputs[i];
    for (size_t j = 0; j < spec->outputs.size(); ++j) {
      ParamSpec& output = spec->outputs[j];
      if (input.name != output.name) continue;
      if (input.dtypes != output.dtypes || input.formats != output.formats ||
          input.optional != output.optional) {
        Invalid(spec->type, input.name + " is an input and an output that differ");
      }
      if (input.value_depend || output.has_init_value) {
        Invalid(spec->type, input.name + " is an input and an output, whose values the host has");
      }
      input.ref = static_cast<int>(j);
      output.ref = static_cast<int>(i);
    }
  }
}

}  // namespace

ParamSpec DefAccess::Param(const ops::OpParamDef& def) {
  ParamSpec spec;
  spec.name = def.name_;
  spec.comment = def.comment_;
  spec.optional = def.type_ == ops::OPTIONAL;
  spec.value_depend = def.value_depend_ == ops::OPTIONAL || def.value_depend_ == ops::REQUIRED;
  spec.auto_contiguous = def.auto_contiguous_;
  spec.ignore_contiguous = def.ignore_contiguous_;
  spec.has_init_value = def.has_init_value_;
  spec.init_value = def.init_value_;
  spec.dtypes = def.dtypes_;
  spec.formats = def.formats_;
  return spec;
}

AttrSpec DefAccess::Attr(const std::string& op, const ops::OpAttrDef& def) {
  using Kind = ops::OpAttrDef::Kind;
  if (def.kind_ == Kind::kUnset) Invalid(op, "attribute " + def.name_ + " has no type");
  if (!def.required_ && !def.has_default_) {
    Invalid(op, "optional attribute " + def.name_ + " has no default");
  }
  AttrSpec spec;
  spec.name = def.name_;
  spec.comment = def.comment_;
  spec.kind = static_cast<AttrKind>(static_cast<int>(def.kind_) - 1);
  spec.required = def.required_;
  spec.int_value = def.int_;
  spec.float_value = def.float_;
  spec.string_value = def.string_;
  spec.int_values = def.ints_;
  spec.float_values = def.floats_;
  spec.bool_values.assign(def.bools_.begin(), def.bools_.end());
  return spec;
}

void DefAccess::Replace(const std::deque<ops::OpParamDef>& from, std::vector<ParamSpec>* to) {
  for (const ops::OpParamDef& def : from) {
    for (ParamSpec& param : *to) {
      if (param.name != def.name_) continue;
      if (!def.dtypes_.empty()) param.dtypes = def.dtypes_;
      if (!def.formats_.empty()) param.formats = def.formats_;
    }
  }
}

void DefAccess::Follow(const std::string& op, const ops::OpDef& def, OpSpec* spec) {
  const auto resolve = [&](const std::deque<ops::OpParamDef>& defs,
                           std::vector<ParamSpec>& params) {
    for (size_t i = 0; i < defs.size(); ++i) {
      if (defs[i].follow_.empty()) continue;
      const ParamSpec* source = nullptr;
      for (const ParamSpec* param : AllParams(spec)) {
        if (param->name == defs[i].follow_) source = param;
      }
      if (source == nullptr || source == &params[i]) {
        Invalid(op, params[i].name + " follows " + defs[i].follow_ + ", which is not there");
      }
      const ops::FollowType type = defs[i].follow_type_;
      const bool all = type == ops::FollowType::ALL;
      if (all || type == ops::FollowType::DTYPE) params[i].dtypes = source->dtypes;
      if (all || type == ops::FollowType::FORMAT) params[i].formats = source->formats;
    }
  };
  resolve(def.inputs_, spec->inputs);
  resolve(def.outputs_, spec->outputs);
}

OpSpec DefAccess::Spec(const ops::OpDef& def, const char* soc) {
  OpSpec spec;
  spec.type = def.type_;
  for (const std::deque<ops::OpParamDef>* params : {&def.inputs_, &def.outputs_}) {
    for (const ops::OpParamDef& param : *params) {
      if (param.type_ == ops::REQUIRED || param.type_ == ops::OPTIONAL) continue;
      Invalid(spec.type, param.name_ + ": the twin has REQUIRED and OPTIONAL parameters only");
    }
  }
  for (const ops::OpParamDef& input : def.inputs_) spec.inputs.push_back(Param(input));
  for (const ops::OpParamDef& output : def.outputs_) spec.outputs.push_back(Param(output));
  for (const ops::OpAttrDef& attr : def.attrs_) spec.attrs.push_back(Attr(spec.type, attr));
  const auto config = def.ai_core_.configs_.find(soc);
  if (config == def.ai_core_.configs_.end()) {
    Invalid(spec.type, std::string("AddConfig(\"") + soc + "\") is missing");
  }
  const auto file = config->second.values_.find("opFile.value");
  spec.kernel_file = file != config->second.values_.end() ? file->second : SnakeCase(spec.type);
  Replace(config->second.inputs_, &spec.inputs);
  Replace(config->second.outputs_, &spec.outputs);
  Follow(spec.type, def, &spec);
  CheckCombinations(&spec);
  PairRefs(&spec);
  spec.launch_empty = def.ai_core_.launch_empty_;
  spec.infer_shape = def.infer_shape_;
  spec.infer_data_type = def.infer_data_type_;
  spec.tiling = def.ai_core_.tiling_;
  return spec;
}

OpSpec SpecOf(const ops::OpDef& def, const char* soc) { return DefAccess::Spec(def, soc); }

std::string SnakeCase(const std::string& op_type) {
  const auto upper = [&](size_t i) {
    return std::isupper(static_cast<unsigned char>(op_type[i])) != 0;
  };
  const auto lower = [&](size_t i) {
    return i < op_type.size() && std::islower(static_cast<unsigned char>(op_type[i])) != 0;
  };
  std::string name;
  for (size_t i = 0; i < op_type.size(); ++i) {
    // A word begins at a capital after a small letter, and at the last one of several.
    const bool begins = i > 0 && upper(i) && (!upper(i - 1) || lower(i + 1));
    if (begins) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(op_type[i])));
  }
  return name;
}

}  // namespace twin
