// Operators that are called by their type: their attributes, and the loops by type.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "twin/cann/opapi/values.h"

struct aclopAttr {
  std::map<std::string, std::variant<int64_t, double, std::string, twin::cann::Dims>> values;
};

namespace twin::cann {

using Tensors = std::vector<Values>;
// Inputs, attributes and shapes of the outputs; gives the outputs, then what inputs are written
// with.
using Operator = std::function<Tensors(const Tensors&, const aclopAttr&, const std::vector<Dims>&)>;

const std::map<std::string, Operator>& AclopOperators();
// Places of the inputs that an operator writes without giving them as outputs.
const std::vector<size_t>& WrittenInputs(const std::string& type);

}  // namespace twin::cann
