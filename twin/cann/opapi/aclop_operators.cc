#include "twin/cann/opapi/aclop.h"
#include "twin/cann/opapi/plan.h"

namespace twin::cann {

const OperatorTypes& AclopOperators() {
  static const OperatorTypes types = [] {
    OperatorTypes all;
    constexpr void (*kAdd[])(OperatorTypes*) = {AddDropout, AddElementwise, AddMovements, AddNorms,
                                                AddParts,   AddSums,        AddTraining};
    for (auto* add : kAdd) add(&all);
    return all;
  }();
  return types;
}

Attributes::Attributes(const aclopAttr& given, const std::vector<Attribute>& known) {
  for (const Attribute& each : known) {
    const auto found = given.values.find(each.name);
    const std::string name = std::string("attribute ") + each.name;
    if (found == given.values.end()) {
      if (std::holds_alternative<std::monostate>(each.otherwise)) Refuse(name + " is missing");
      if (const auto* integer = std::get_if<int64_t>(&each.otherwise))
        values_[each.name] = *integer;
      if (const auto* real = std::get_if<double>(&each.otherwise)) values_[each.name] = *real;
      if (const auto* text = std::get_if<std::string>(&each.otherwise)) values_[each.name] = *text;
      continue;
    }
    const bool real = std::holds_alternative<double>(each.otherwise);
    const bool text = std::holds_alternative<std::string>(each.otherwise);
    if (real && std::holds_alternative<double>(found->second)) {
      values_[each.name] = std::get<double>(found->second);
    } else if (text && std::holds_alternative<std::string>(found->second)) {
      values_[each.name] = std::get<std::string>(found->second);
    } else if (!real && !text && std::holds_alternative<int64_t>(found->second)) {
      values_[each.name] = std::get<int64_t>(found->second);
    } else {
      Refuse(name + " must be " + (real ? "a float" : text ? "a string" : "an integer"));
    }
  }
  for (const auto& [name, value] : given.values) {
    if (values_.count(name) == 0) Refuse("there is no attribute " + name);
  }
}

std::string Text(const Described& tensor) {
  aclTensor shown;
  shown.dtype = tensor.dtype;
  shown.dims = tensor.dims;
  return DescribeTensor(shown);
}

void Require(const Inputs& in, size_t i, Dtypes allowed) {
  aclTensor tensor;
  tensor.dtype = in[i].dtype;
  tensor.dims = in[i].dims;
  RequireDtype(("input " + std::to_string(i)).c_str(), &tensor, allowed);
}

void RequireAlike(const Inputs& in, size_t i, size_t other) {
  if (in[i].dtype == in[other].dtype) return;
  Refuse("input " + std::to_string(i) + " must have the dtype of input " + std::to_string(other) +
         ", " + NameOf(in[other].dtype) + ", got " + Text(in[i]));
}

void RequireShape(const Inputs& in, size_t i, const Dims& dims) {
  if (in[i].dims == dims) return;
  Refuse("input " + std::to_string(i) + " must be " + Text({in[i].dtype, dims}) + ", got " +
         Text(in[i]));
}

Dims Known(const Inputs& in, size_t i) {
  Require(in, i, kIndices);
  if (in[i].values == nullptr) throw Later();
  Dims integers;
  for (double value : in[i].values->data) integers.push_back(static_cast<int64_t>(value));
  return integers;
}

int64_t KnownOne(const Inputs& in, size_t i) {
  if (Product(in[i].dims) != 1) {
    Refuse("input " + std::to_string(i) + " must be one integer, got " + Text(in[i]));
  }
  return Known(in, i).front();
}

}  // namespace twin::cann
