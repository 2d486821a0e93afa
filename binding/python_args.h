// Reading Python arguments: each function names the operator's function and argument in its error.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>
#include <vector>

#include "infer/op.h"

namespace nsa {

struct Argument {
  const char* function;
  std::string_view name;

  std::string must_be(const char* expected, PyObject* got) const;
};

[[noreturn]] void fail_type(const Argument& argument, const char* expected, PyObject* got);

// False where the object is no Python or NumPy integer; a bool is none. Not whatever has __index__:
// arrays and tensors of one element do, and a tensor in a graph under construction would answer
// with a value that is not its own.
bool read_int(const Argument& argument, PyObject* object, int64_t* value);
// A tuple or list of integers.
std::vector<int64_t> read_ints(const Argument& argument, PyObject* object);

// The inputs of one call; keeps the list values that the descriptions point to.
struct PythonInputs {
  std::vector<TensorDesc> descs;
  std::vector<std::vector<int64_t>> values;

  PythonInputs(const OpSchema& op, const pybind11::sequence& inputs);

 private:
  void read(const Argument& argument, PyObject* item, TensorDesc& desc);
};

// Attributes of a call; throws OpError where one has the wrong Python type.
Attrs read_attrs(const OpSchema& op, const pybind11::dict& dict);

}  // namespace nsa
