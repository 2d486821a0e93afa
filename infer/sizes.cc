#include "infer/sizes.h"

#include <limits>

namespace nsa {

namespace {

int64_t sum(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return kUnknownDim;
  return a > std::numeric_limits<int64_t>::max() - b ? std::numeric_limits<int64_t>::max() : a + b;
}

int64_t quotient(int64_t a, int64_t b) { return a < 0 || b <= 0 ? kUnknownDim : a / b; }

// "T1", without marks.
std::string axis_text(const Shape& shape, const ShapeAxis& axis) {
  return std::string(shape.text.substr(axis.begin, axis.length));
}

// "(T1, N1, D) with layout 'TND'"
std::string shape_text(const ShapeTable& table, const Shape& shape) {
  if (shape.label > 0) return std::string(shape.text.substr(0, shape.label));
  std::string text = "(";
  for (size_t i = 0; i < shape.rank; ++i)
    text += (i == 0 ? "" : ", ") + axis_text(shape, table.axis(shape, i));
  text += shape.rank == 1 ? ",)" : ")";
  const std::string_view suffix = shape.text.substr(shape.suffix);
  return suffix.empty() ? text : text + " " + std::string(suffix);
}

// The name that a size is, without an expression around it; the number of names if it is none.
size_t name_of(const ShapeTable& table, const ShapeAxis& axis) {
  const ShapeStep& step = table.step(axis, 0);
  return axis.steps == 1 && step.code == ShapeStep::kName ? static_cast<size_t>(step.value)
                                                          : table.names();
}

}  // namespace

Sizes::Sizes(const Context& c) : c_(c), table_(c.schema().inputs.shapes()) {
  values_.fill(kUnknownDim);
  const std::vector<int16_t>& attrs = c.schema().sizes.attrs;
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (attrs[i] < 0) continue;
    const int64_t size = std::get<int64_t>(c.attr(attrs[i]));
    values_[i] = size < 0 ? kUnknownDim : size;
  }
}

const Shape& Sizes::shape_of(size_t input) const {
  const ShapeForms& forms = c_.schema().inputs[input].shapes;
  return table_.shape(forms.first + std::min<size_t>(form_, forms.count - 1));
}

int64_t Sizes::evaluate(const ShapeTable& table, const ShapeAxis& axis,
                        const uint8_t* places) const {
  int64_t stack[8];
  size_t top = 0;
  for (size_t i = 0; i < axis.steps; ++i) {
    const ShapeStep& step = table.step(axis, i);
    if (step.code == ShapeStep::kName) {
      stack[top++] = values_[places == nullptr ? step.value : places[step.value]];
      continue;
    }
    if (step.code == ShapeStep::kNumber) {
      stack[top++] = step.value;
      continue;
    }
    --top;
    int64_t& a = stack[top - 1];
    const int64_t b = stack[top];
    a = step.code == ShapeStep::kAdd        ? sum(a, b)
        : step.code == ShapeStep::kMultiply ? product({a, b})
                                            : quotient(a, b);
  }
  return stack[0];
}

void Sizes::take(size_t input) {
  const TensorDesc& desc = c_.in(input);
  const Shape& shape = shape_of(input);
  if (!c_.has(input) || !desc.known_rank || desc.shape.size() != shape.rank) return;
  for (size_t i = 0; i < shape.rank; ++i) {
    const size_t name = name_of(table_, table_.axis(shape, i));
    if (name < table_.names() && values_[name] < 0) values_[name] = c_.dim(input, i);
  }
}

void Sizes::take(std::initializer_list<size_t> inputs) {
  for (size_t input : inputs) take(input);
}

void Sizes::require_rank(size_t input, const Shape& shape) const {
  const TensorDesc& desc = c_.in(input);
  if (!desc.known_rank || desc.shape.size() == shape.rank) return;
  c_.fail_value(
      c_.name(input), "of shape " + shape_text(table_, shape),
      "rank " + std::to_string(desc.shape.size()) + " with shape " + format_shape(desc.shape));
}

void Sizes::require_not_empty(size_t input, const Shape& shape) const {
  for (size_t i = 0; i < shape.rank; ++i) {
    const ShapeAxis& axis = table_.axis(shape, i);
    if (axis.positive && c_.dim(input, i) == 0)
      c_.require_positive_dim(input, i, axis_text(shape, axis).c_str());
  }
}

void Sizes::require_attributes(size_t input, const Shape& shape) const {
  for (size_t i = 0; i < shape.rank; ++i) {
    const ShapeAxis& axis = table_.axis(shape, i);
    if (!axis.said) continue;
    const size_t name = name_of(table_, axis);
    const int64_t got = c_.dim(input, i), said = values_[name];
    if (got < 0 || got == said) continue;
    c_.fail_value(std::string(table_.name(name).attr).c_str(),
                  std::string(table_.name(name).name) + " of " + c_.name(input) + " (" +
                      std::to_string(got) + ")",
                  std::to_string(said));
  }
}

void Sizes::require_sizes(size_t input, const Shape& shape) const {
  const TensorDesc& desc = c_.in(input);
  if (!desc.known_rank) return;
  const auto expected = [&](size_t i) {
    const ShapeAxis& axis = table_.axis(shape, i);
    return axis.free ? kUnknownDim : evaluate(table_, axis, nullptr);
  };
  for (size_t i = 0; i < shape.rank; ++i) {
    const int64_t size = expected(i);
    if (size < 0 || desc.shape[i] < 0 || desc.shape[i] == size) continue;
    std::vector<int64_t> all(shape.rank);
    for (size_t j = 0; j < shape.rank; ++j) all[j] = expected(j);
    c_.fail_value(c_.name(input),
                  "of shape " + shape_text(table_, shape) + " = " + format_shape(all),
                  format_shape(desc.shape));
  }
}

void Sizes::match_ranks(std::initializer_list<size_t> inputs) {
  for (size_t input : inputs) {
    if (c_.has(input)) require_rank(input, shape_of(input));
  }
  for (size_t input : inputs) {
    if (c_.has(input)) require_not_empty(input, shape_of(input));
  }
  for (size_t input : inputs) {
    if (c_.has(input)) require_attributes(input, shape_of(input));
  }
  take(inputs);
}

void Sizes::match(std::initializer_list<size_t> inputs) {
  for (size_t input : inputs) {
    if (!c_.has(input)) continue;
    match_ranks({input});
    require_sizes(input, shape_of(input));
  }
}

std::vector<OutputDesc> Sizes::outputs() const {
  const OpSchema& schema = c_.schema();
  const ShapeTable& table = schema.outputs.shapes();
  std::vector<OutputDesc> outputs(schema.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputSpec& spec = schema.outputs.begin()[i];
    OutputDesc& output = outputs[i];
    output.dtype = spec.dtype == Result::kFloat     ? c_.dtype(schema.sizes.float_input)
                   : spec.dtype == Result::kFloat32 ? DType::kFloat32
                   : spec.dtype == Result::kInt32   ? DType::kInt32
                   : spec.dtype == Result::kUint8   ? DType::kUint8
                                                    : DType::kUnknown;
    if (spec.like != nullptr) {
      const TensorDesc& like = c_.in(schema.sizes.likes[i]);
      output.shape = !like.present     ? std::vector<int64_t>{1}
                     : like.known_rank ? like.shape
                                       : std::vector<int64_t>{-2};
    } else if (spec.shapes.count > 0) {
      const Shape& shape =
          table.shape(spec.shapes.first + std::min<size_t>(form_, spec.shapes.count - 1));
      output.shape.resize(shape.rank);
      for (size_t j = 0; j < shape.rank; ++j)
        output.shape[j] = evaluate(table, table.axis(shape, j), schema.sizes.of_outputs.data());
    }
  }
  return outputs;
}

}  // namespace nsa
