// Operators that are called by their type: how one is described, and the table of them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "twin/cann/opapi/dtypes.h"
#include "twin/cann/opapi/values.h"

struct aclopAttr {
  std::map<std::string, std::variant<int64_t, double, std::string, twin::cann::Dims>> values;
};

struct aclTensorDesc {
  aclDataType dtype;
  twin::cann::Dims dims;
  aclFormat format;
  // How the elements lie in memory, where a call has set it.
  aclFormat storage_format;
  twin::cann::Dims storage_dims;
  std::vector<uint8_t> constant;  // content that the caller gave with the description
  bool on_host = false;
};

struct aclDataBuffer {
  void* data;
  size_t bytes;
};

namespace twin::cann {

using Tensors = std::vector<Values>;

// A tensor of a call: an output, or an input with its values where they are known.
struct Described {
  aclDataType dtype;
  Dims dims;
  const Values* values = nullptr;
};
using Inputs = std::vector<Described>;

// Thrown where a shape depends on values that are on the device until the stream comes to the call.
struct Later {};

// An attribute of an operator: its kind is that of the default. Without one it must be given.
struct Attribute {
  const char* name;
  std::variant<std::monostate, int64_t, double, std::string> otherwise;
};

class Attributes {
 public:
  Attributes(const aclopAttr& given, const std::vector<Attribute>& known);
  int64_t Integer(const std::string& name) const { return std::get<int64_t>(values_.at(name)); }
  double Real(const std::string& name) const { return std::get<double>(values_.at(name)); }
  const std::string& Text(const std::string& name) const {
    return std::get<std::string>(values_.at(name));
  }
  bool Has(const std::string& name) const { return values_.count(name) != 0; }

 private:
  std::map<std::string, std::variant<int64_t, double, std::string>> values_;
};

struct OperatorType {
  size_t least, most;  // inputs
  std::vector<Attribute> attributes;
  // Checks the inputs and gives what the outputs have to be. Split and its kin are told how many.
  std::function<std::vector<Described>(const Inputs&, const Attributes&, size_t outputs)> infer;
  // The outputs, then what inputs are written with.
  std::function<Tensors(const Tensors&, const Attributes&, const std::vector<Described>&)> loop;
  std::vector<size_t> written = {};  // places of inputs that are written and no outputs
  int copied = -1;                   // place of the input whose bits the output has
};
using OperatorTypes = std::map<std::string, OperatorType>;

constexpr size_t kAnyNumber = 1024;

const OperatorTypes& AclopOperators();
void AddDropout(OperatorTypes* types);
void AddElementwise(OperatorTypes* types);
void AddMovements(OperatorTypes* types);
void AddNorms(OperatorTypes* types);
void AddParts(OperatorTypes* types);
void AddSums(OperatorTypes* types);
void AddTraining(OperatorTypes* types);

// The parts of which the functions above are made. A check throws with the input and what was got.
std::string Text(const Described& tensor);
void Require(const Inputs& in, size_t i, Dtypes allowed);
void RequireAlike(const Inputs& in, size_t i, size_t other);  // dtype
void RequireShape(const Inputs& in, size_t i, const Dims& dims);
// The integers of an input; throws Later where they are not known yet.
Dims Known(const Inputs& in, size_t i);
int64_t KnownOne(const Inputs& in, size_t i);

}  // namespace twin::cann
