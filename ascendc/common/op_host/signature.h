// An operator as CANN sees it, stated once: its definition is made from this, its host functions
// read a call by it, and the build takes the order and the kinds of the aclnn function's arguments
// from the definition.
#pragma once

#include <cctype>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "infer/op.h"
#include "register/op_def_registry.h"

namespace nsa::ascend {

// One for each combination of dtypes that the operator has a kernel for.
using Dtypes = std::vector<ge::DataType>;

struct Parameter {
  std::string name;  // CANN's
  std::string rule;  // that of infer/
  Dtypes dtypes;
  bool optional = false;
  bool list = false;  // host values at tiling, an aclIntArray for the caller
  bool unused = false;
  bool unread = false;   // unused, and may be there: only whether it is counts
  bool written = false;  // an output that is the input of the same name
};

enum class AttrKind { kInt, kFloat, kString };

struct Attribute {
  std::string name;  // CANN's
  std::string rule;  // that of infer/; empty where the value is always the same
  AttrKind kind = AttrKind::kInt;
  int64_t fixed_int = 0;
  std::string fixed_string;
  std::string note;      // what a fixed number means
  int64_t most = -1;     // 0 ... most have no effect; -1: not such an attribute
  int64_t when_set = 1;  // the value where a flag of infer/, which is 0 or 1, is set
};

// Parameters are named as CANN names them, in its order. Where infer/ has another name than that in
// snake_case it follows.
class Signature {
 public:
  // `op`: the operator's name in infer/. `dtypes`: of the tensors whose dtype is chosen by the
  // caller, one for each combination.
  Signature(const char* op, Dtypes dtypes) : op_(op), dtypes_(std::move(dtypes)) {}

  Signature& input(const char* name, const char* rule = nullptr) {
    return add(&inputs_, name, rule, dtypes_, false);
  }
  // `dtypes`: one for each combination, or one for all of them.
  Signature& input(const char* name, const char* rule, const Dtypes& dtypes) {
    return add(&inputs_, name, rule, dtypes, false);
  }
  Signature& optional(const char* name, const char* rule = nullptr) {
    return add(&inputs_, name, rule, dtypes_, true);
  }
  Signature& optional(const char* name, const char* rule, const Dtypes& dtypes) {
    return add(&inputs_, name, rule, dtypes, true);
  }
  // An input that the operator also writes: an output of the same name, after all others. CANN
  // counts the arguments of an executor by inputs and outputs, and whoever knows the function alone
  // does not count this one twice.
  Signature& written(const char* name, const char* rule = nullptr) {
    return written(name, rule, dtypes_);
  }
  Signature& written(const char* name, const char* rule, const Dtypes& dtypes) {
    input(name, rule, dtypes);
    outputs_.push_back(inputs_.back());
    outputs_.back().written = true;
    ++written_;
    return *this;
  }
  Signature& list(const char* name, const char* rule = nullptr) {
    add(&inputs_, name, rule, {ge::DT_INT64}, true);
    inputs_.back().list = true;
    return *this;
  }
  Signature& output(const char* name, const char* rule = nullptr) {
    return add(&outputs_, name, rule, dtypes_, false);
  }
  Signature& output(const char* name, const char* rule, const Dtypes& dtypes) {
    return add(&outputs_, name, rule, dtypes, false);
  }
  Signature& attr(const char* name, AttrKind kind, const char* rule = nullptr) {
    attrs_.push_back({name, rule_name(name, rule), kind, 0, "", "", -1, 1});
    return *this;
  }
  // A number of CANN's interface that is 0 or `when_set`: a flag of infer/.
  Signature& flag(const char* name, const char* rule, int64_t when_set) {
    attr(name, AttrKind::kInt, rule);
    attrs_.back().when_set = when_set;
    return *this;
  }
  // An attribute of CANN's interface that has one value here.
  Signature& fixed(const char* name, int64_t value, const char* note) {
    attrs_.push_back({name, "", AttrKind::kInt, value, "", note, -1, 1});
    return *this;
  }
  Signature& fixed(const char* name, const char* value) {
    attrs_.push_back({name, "", AttrKind::kString, 0, value, "", -1, 1});
    return *this;
  }
  // A number of CANN's interface that has no effect here, 0 to `most`.
  Signature& without_effect(const char* name, int64_t most) {
    attrs_.push_back({name, "", AttrKind::kInt, 0, "", "", most, 1});
    return *this;
  }
  // An input of CANN's interface that has to be absent.
  Signature& absent(const char* name) {
    add(&inputs_, name, nullptr, dtypes_, true);
    inputs_.back().unused = true;
    return *this;
  }
  // An input of CANN's interface whose content is not read.
  Signature& unread(const char* name, const Dtypes& dtypes) {
    add(&inputs_, name, nullptr, dtypes, true);
    inputs_.back().unused = inputs_.back().unread = true;
    return *this;
  }
  // An output of CANN's interface that is not written.
  Signature& unwritten(const char* name) {
    add(&outputs_, name, nullptr, dtypes_, true);
    outputs_.back().unused = true;
    return *this;
  }

  const std::string& op() const { return op_; }
  const std::vector<Parameter>& inputs() const { return inputs_; }
  const std::vector<Attribute>& attrs() const { return attrs_; }
  const std::vector<Parameter>& outputs() const { return outputs_; }

  // Makes the definition, but for the host functions and the products.
  void define(ops::OpDef* def) const {
    for (const Parameter& input : inputs_) {
      ops::OpParamDef& param = def->Input(input.name.c_str());
      define(input, &param);
      if (input.list) {
        param.ValueDepend(ops::OPTIONAL);
      } else {
        param.AutoContiguous();
      }
    }
    for (const Parameter& output : outputs_) {
      ops::OpParamDef& param = def->Output(output.name.c_str());
      define(output, &param);
      param.AutoContiguous();
    }
    for (const Attribute& attr : attrs_) define(attr, &def->Attr(attr.name.c_str()));
  }

 private:
  // "compressBlockSize" -> "compress_block_size".
  static std::string rule_name(const char* name, const char* rule) {
    if (rule != nullptr) return rule;
    std::string words;
    for (const char* c = name; *c != '\0'; ++c) {
      const auto letter = static_cast<unsigned char>(*c);
      if (std::isupper(letter) != 0) words += '_';
      words += static_cast<char>(std::tolower(letter));
    }
    return words;
  }

  Signature& add(std::vector<Parameter>* to, const char* name, const char* rule,
                 const Dtypes& dtypes, bool optional) {
    const bool same = dtypes.size() == 1 && dtypes_.size() > 1;
    const std::ptrdiff_t behind = to == &outputs_ ? written_ : 0;
    to->insert(to->end() - behind,
               {name, rule_name(name, rule), same ? Dtypes(dtypes_.size(), dtypes[0]) : dtypes,
                optional, false, false, false, false});
    return *this;
  }

  static void define(const Parameter& from, ops::OpParamDef* param) {
    const std::vector<ge::Format> formats(from.dtypes.size(), ge::FORMAT_ND);
    param->ParamType(from.optional ? ops::OPTIONAL : ops::REQUIRED)
        .DataType(from.dtypes)
        .Format(formats)
        .UnknownShapeFormat(formats)
        .Comment(from.rule.c_str());  // by which callers of the aclnn function know it
  }

  static void define(const Attribute& from, ops::OpAttrDef* attr) {
    const bool always = from.rule.empty();
    attr->AttrType(always ? ops::OPTIONAL : ops::REQUIRED);
    const std::string factor = from.when_set == 1 ? "" : "*" + std::to_string(from.when_set);
    attr->Comment(always ? "has one value" : (from.rule + factor).c_str());
    if (from.kind == AttrKind::kString) {
      always ? attr->String(from.fixed_string.c_str()) : attr->String();
    } else if (from.kind == AttrKind::kFloat) {
      attr->Float();
    } else {
      always ? attr->Int(from.fixed_int) : attr->Int();
    }
  }

  std::string op_;
  Dtypes dtypes_;
  std::vector<Parameter> inputs_, outputs_;
  std::ptrdiff_t written_ = 0;  // outputs that are inputs
  std::vector<Attribute> attrs_;
};

}  // namespace nsa::ascend
