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
// Inputs, attributes and shapes of the outputs; gives the outputs.
using Operator = std::function<Tensors(const Tensors&, const aclopAttr&, const std::vector<Dims>&)>;

const std::map<std::string, Operator>& AclopOperators();

}  // namespace twin::cann
