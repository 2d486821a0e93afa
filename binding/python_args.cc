#include "binding/python_args.h"

#include <cstring>

namespace py = pybind11;

namespace nsa {

namespace {

// Escaped to ASCII, so that cutting it leaves valid text.
std::string described(PyObject* object) {
  const auto ascii = py::reinterpret_steal<py::object>(PyObject_ASCII(object));
  if (!ascii) throw py::error_already_set();
  const std::string text = py::str(ascii);
  return text.substr(0, 80) + " (" + Py_TYPE(object)->tp_name + ")";
}

bool is_numpy_scalar(PyObject* object, const char* prefix) {
  const char* name = Py_TYPE(object)->tp_name;
  return std::strncmp(name, "numpy.", 6) == 0 &&
         std::strncmp(name + 6, prefix, std::strlen(prefix)) == 0;
}

bool read_float(PyObject* object, double* value) {
  if (!PyFloat_Check(object) && !is_numpy_scalar(object, "float")) return false;
  *value = PyFloat_AsDouble(object);
  if (*value == -1.0 && PyErr_Occurred()) throw py::error_already_set();
  return true;
}

std::string_view read_text(PyObject* object) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text == nullptr) throw py::error_already_set();
  return {text, static_cast<size_t>(size)};
}

// The value of a str as messages show it, escaped to ASCII and cut; neither changes a choice.
std::string read_choice(PyObject* object) {
  // Takes the value alone: a subclass of str may have a representation of its own.
  const auto value = py::reinterpret_steal<py::object>(PyUnicode_FromObject(object));
  if (!value) throw py::error_already_set();
  const auto ascii = py::reinterpret_steal<py::object>(PyObject_ASCII(value.ptr()));
  if (!ascii) throw py::error_already_set();
  const std::string quoted = py::str(ascii);
  return quoted.substr(1, quoted.size() - 2).substr(0, 80);
}

bool read_flag(PyObject* object, int64_t* value) {
  if (!PyBool_Check(object) && !is_numpy_scalar(object, "bool")) return false;
  *value = PyObject_IsTrue(object);
  return true;
}

const AttrSpec* find_spec(const OpSchema& op, std::string_view name) {
  for (const AttrSpec& spec : op.attrs) {
    if (name == spec.name) return &spec;
  }
  return nullptr;
}

Attrs::Value read_attr(const OpSchema& op, std::string_view name, PyObject* value) {
  const AttrSpec* spec = find_spec(op, name);
  const Argument argument{op.function, name};
  int64_t number = 0;
  double real = 0;
  if (spec != nullptr && spec->flag && read_flag(value, &number)) return number;
  if (read_int(argument, value, &number)) return number;
  if (read_float(value, &real)) return real;
  if (PyUnicode_Check(value)) return read_choice(value);
  const char* expected = "an int, a float or a str";
  if (spec != nullptr) {
    expected = spec->flag                       ? "a bool"
               : spec->type == AttrType::kInt   ? "an int"
               : spec->type == AttrType::kFloat ? "a float"
                                                : "a str";
  }
  fail_type(argument, expected, value);
}

}  // namespace

std::string Argument::must_be(const char* expected, PyObject* got) const {
  return std::string(function) + ": " + std::string(name) + " must be " + expected + ", got " +
         described(got);
}

void fail_type(const Argument& argument, const char* expected, PyObject* got) {
  throw OpError(OpError::kType, argument.must_be(expected, got));
}

bool read_int(const Argument& argument, PyObject* object, int64_t* value) {
  const bool is_int = (PyLong_Check(object) && !PyBool_Check(object)) ||
                      is_numpy_scalar(object, "int") || is_numpy_scalar(object, "uint");
  if (!is_int) return false;
  const py::object number = py::reinterpret_steal<py::object>(PyNumber_Index(object));
  if (!number) throw py::error_already_set();
  int overflow = 0;
  *value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) {
    throw OpError(OpError::kValue, argument.must_be("an int of 64 bits", object));
  }
  return true;
}

std::vector<int64_t> read_ints(const Argument& argument, PyObject* object) {
  if (!PyTuple_Check(object) && !PyList_Check(object)) {
    fail_type(argument, "a tuple or list of ints", object);
  }
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  PyObject** items = PySequence_Fast_ITEMS(object);
  std::vector<int64_t> values(size);
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (!read_int(argument, items[i], &values[i]))
      fail_type(argument, "a tuple or list of ints", items[i]);
  }
  return values;
}

PythonInputs::PythonInputs(const OpSchema& op, const py::sequence& inputs) {
  const size_t count = inputs.size();
  descs.resize(count);
  values.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const py::object item = inputs[i];
    const char* name = i < op.inputs.size() ? op.inputs[i].name : "input";
    read({op.function, name}, item.ptr(), descs[i]);
  }
}

void PythonInputs::read(const Argument& argument, PyObject* item, TensorDesc& desc) {
  if (item == Py_None) {
    desc.present = false;
    return;
  }
  if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) < 2 || PyTuple_GET_SIZE(item) > 3) {
    fail_type(argument, "None or (dtype name, shape or None, values or None)", item);
  }
  PyObject* dtype = PyTuple_GET_ITEM(item, 0);
  if (dtype != Py_None) {
    if (!PyUnicode_Check(dtype)) fail_type(argument, "described by a dtype name", dtype);
    if (!dtype_from_name(read_text(dtype), &desc.dtype)) {
      fail_type(argument, "of a known dtype", dtype);
    }
  }
  PyObject* shape = PyTuple_GET_ITEM(item, 1);
  desc.known_rank = shape != Py_None;
  if (desc.known_rank) desc.shape = read_ints(argument, shape);
  PyObject* list = PyTuple_GET_SIZE(item) == 3 ? PyTuple_GET_ITEM(item, 2) : Py_None;
  if (list != Py_None) {
    values.push_back(read_ints(argument, list));
    desc.values = &values.back();
  }
}

Attrs read_attrs(const OpSchema& op, const py::dict& dict) {
  Attrs attrs;
  attrs.reserve(dict.size());
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict.ptr(), &position, &key, &value)) {
    if (!PyUnicode_Check(key)) fail_type({op.function, "an attribute's name"}, "a str", key);
    const std::string_view name = read_text(key);
    attrs.set(name, read_attr(op, name, value));
  }
  return attrs;
}

}  // namespace nsa
