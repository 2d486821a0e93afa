// A call as CANN's contexts have it, described for the rules of infer/, which know nothing of CANN.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "ascendc/common/op_host/dtypes.h"
#include "ascendc/common/op_host/op_context.h"
#include "ascendc/common/op_host/signature.h"
#include "infer/format.h"
#include "infer/op.h"
#include "infer/seq.h"

namespace nsa::ascend {

inline std::vector<int64_t> dims_of(const gert::Shape& shape) {
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < shape.GetDimNum(); ++axis) dims.push_back(shape.GetDim(axis));
  return dims;
}

inline void set_shape(gert::Shape* shape, const std::vector<int64_t>& dims) {
  shape->SetDimNum(dims.size());
  for (size_t axis = 0; axis < dims.size(); ++axis) shape->SetDim(axis, dims[axis]);
}

inline const gert::Shape* shape_of(const gert::InferShapeContext& context, size_t input) {
  return context.GetOptionalInputShape(input);
}

inline const gert::Shape* shape_of(const gert::TilingContext& context, size_t input) {
  const gert::StorageShape* shape = context.GetOptionalInputShape(input);
  return shape == nullptr ? nullptr : &shape->GetStorageShape();
}

// Types are not known, and not needed, where shapes are inferred.
inline DType dtype_of(const gert::InferShapeContext&, size_t) { return DType::kUnknown; }

inline DType dtype_of(const gert::TilingContext& context, size_t input) {
  return dtype_of(context.GetOptionalInputDesc(input)->GetDataType());
}

// Inputs and attributes by their names in infer/. An operator may add attributes that CANN's
// interface does not have before it asks for the outputs.
class DescribedCall {
 public:
  // Throws OpError where an attribute that has one value has another one.
  template <class Context>
  DescribedCall(const Signature& signature, const Context& context)
      : signature_(signature), schema_(schema(signature.op())), inputs_(schema_.inputs.size()) {
    for (TensorDesc& input : inputs_) input.present = false;
    for (size_t i = 0; i < signature.inputs().size(); ++i) {
      const Parameter& parameter = signature.inputs()[i];
      if (parameter.unused) {
        const bool present = shape_of(context, i) != nullptr;
        if (present && !parameter.unread) fail(parameter.rule + " must be None, got a tensor");
        if (present) unread_.push_back(parameter.rule);
        continue;
      }
      TensorDesc& desc = inputs_[index_of(schema_.inputs, parameter.rule)];
      if (parameter.list) {
        describe_list(context.GetOptionalInputTensor(i), &desc);
      } else if (const gert::Shape* shape = shape_of(context, i)) {
        desc.present = true;
        desc.dtype = dtype_of(context, i);
        desc.shape = dims_of(*shape);
      }
    }
    for (size_t i = 0; i < signature.attrs().size(); ++i) read_attr(*context.GetAttrs(), i);
  }
  DescribedCall(const DescribedCall&) = delete;
  DescribedCall& operator=(const DescribedCall&) = delete;

  const TensorDesc& input(std::string_view name) const {
    return inputs_[index_of(schema_.inputs, name)];
  }
  // Values of a sequence list, none where it is absent.
  const SeqList& values(std::string_view name) const {
    static const SeqList none;
    const TensorDesc& list = input(name);
    return list.values == nullptr ? none : *list.values;
  }
  // All inputs as the schema of infer/ orders them.
  const std::vector<TensorDesc>& inputs() const { return inputs_; }
  int64_t int_attr(std::string_view name) const { return attrs.get_int(name, 0); }
  // Whether an input is given whose content is not read.
  bool has_unread(std::string_view name) const {
    return std::find(unread_.begin(), unread_.end(), name) != unread_.end();
  }

  // In the order of the signature. Throws OpError where a rule is violated.
  std::vector<OutputDesc> infer() const {
    const std::vector<OutputDesc> all =
        nsa::infer(signature_.op(), inputs_, attrs, Target::kAscend);
    std::vector<OutputDesc> outputs;
    for (const Parameter& output : signature_.outputs()) {
      if (output.written) {
        outputs.push_back({input(output.rule).dtype, input(output.rule).shape});
        continue;
      }
      outputs.push_back(output.unused ? OutputDesc{DType::kUnknown, {0}}
                                      : all[index_of(schema_.outputs, output.rule)]);
    }
    return outputs;
  }
  // Runs infer() at tiling, where the caller has allocated the outputs: their shapes must match.
  void check(const gert::TilingContext& context) const {
    const std::vector<OutputDesc> expected = infer();
    for (size_t i = 0; i < expected.size(); ++i) {
      if (signature_.outputs()[i].unused) continue;
      const std::vector<int64_t> got = dims_of(context.GetOutputShape(i)->GetStorageShape());
      if (got == expected[i].shape) continue;
      fail(signature_.outputs()[i].rule + " must be of shape " + format_shape(expected[i].shape) +
           ", got " + format_shape(got));
    }
  }

  Attrs attrs;

 private:
  static std::string_view name_of(const char* name) { return name; }
  template <class Spec>
  static std::string_view name_of(const Spec& spec) {
    return spec.name;
  }
  template <class Specs>
  static size_t index_of(const Specs& specs, std::string_view name) {
    for (size_t i = 0; i < specs.size(); ++i) {
      if (name_of(specs[i]) == name) return i;
    }
    throw OpError(OpError::kValue, "infer/ has no " + std::string(name));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw OpError(OpError::kValue, std::string(schema_.function) + ": " + what);
  }

  // A list reaches the host as a tensor whose values are known.
  void describe_list(const gert::Tensor* tensor, TensorDesc* desc) {
    desc->dtype = DType::kInt64;
    const int64_t* data = tensor == nullptr ? nullptr : tensor->GetData<int64_t>();
    desc->present = data != nullptr;
    if (data == nullptr) return;
    lists_.emplace_back(data, data + tensor->GetShapeSize());
    desc->shape = {static_cast<int64_t>(lists_.back().size())};
    desc->values = &lists_.back();
  }

  void read_attr(const gert::RuntimeAttrs& from, size_t index) {
    const Attribute& attr = signature_.attrs()[index];
    if (attr.rule.empty()) {
      check_fixed(attr, from, index);
    } else if (attr.kind == AttrKind::kInt) {
      attrs.set(attr.rule, flag_of(attr, *from.GetInt(index)));
    } else if (attr.kind == AttrKind::kFloat) {
      attrs.set(attr.rule, static_cast<double>(*from.GetFloat(index)));
    } else {
      const char* text = from.GetStr(index);
      attrs.set(attr.rule, std::string(text == nullptr ? "" : text));
    }
  }

  int64_t flag_of(const Attribute& attr, int64_t got) const {
    if (attr.when_set == 1) return got;
    if (got == 0 || got == attr.when_set) return got != 0;
    fail(attr.name + " must be 0 or " + std::to_string(attr.when_set) + ", got " +
         std::to_string(got));
  }

  void check_fixed(const Attribute& attr, const gert::RuntimeAttrs& from, size_t index) const {
    if (attr.kind == AttrKind::kString) {
      const char* text = from.GetStr(index);
      if (text != nullptr && attr.fixed_string == text) return;
      fail(attr.name + " must be '" + attr.fixed_string + "', got " +
           (text == nullptr ? "none" : "'" + std::string(text) + "'"));
    }
    const int64_t got = *from.GetInt(index);
    if (attr.most >= 0) {
      if (got >= 0 && got <= attr.most) return;
      fail(attr.name + " must be in [0, " + std::to_string(attr.most) + "], got " +
           std::to_string(got));
    }
    if (got == attr.fixed_int) return;
    fail(attr.name + " must be " + std::to_string(attr.fixed_int) + " (" + attr.note + "), got " +
         std::to_string(got));
  }

  const Signature& signature_;
  const OpSchema& schema_;
  std::vector<TensorDesc> inputs_;
  std::deque<SeqList> lists_;
  std::vector<std::string> unread_;
};

// The host functions that depend on the signature alone; `signature` is the operator's.
template <const Signature& (*signature)()>
ge::graphStatus infer_shape(gert::InferShapeContext* context) {
  return guarded(context->GetNodeName(), [&] {
    const std::vector<OutputDesc> outputs = DescribedCall(signature(), *context).infer();
    for (size_t i = 0; i < outputs.size(); ++i) {
      set_shape(context->GetOutputShape(i), outputs[i].shape);
    }
  });
}

// An output has the dtype of the first input with the same dtypes in the signature, or its only
// one.
template <const Signature& (*signature)()>
ge::graphStatus infer_data_type(gert::InferDataTypeContext* context) {
  const std::vector<Parameter>& inputs = signature().inputs();
  for (size_t i = 0; i < signature().outputs().size(); ++i) {
    const Dtypes& dtypes = signature().outputs()[i].dtypes;
    ge::DataType dtype = dtypes[0];
    for (size_t j = inputs.size(); j-- > 0;) {
      const bool given = !inputs[j].list && context->GetOptionalInputDesc(j) != nullptr;
      if (given && inputs[j].dtypes == dtypes) dtype = context->GetOptionalInputDataType(j);
    }
    if (context->SetOutputDataType(i, dtype) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
  }
  return ge::GRAPH_SUCCESS;
}

}  // namespace nsa::ascend
