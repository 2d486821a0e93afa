// The key that tells whether a call in PyNative mode is like an earlier one. Made in Python it
// would take a third of the time that MindSpore needs for the rest of a call.
#include <vector>

#include "binding/bindings.h"

namespace py = pybind11;

namespace nsa {

namespace {

// The parts of a key, flat: a mark of what follows before whatever Python takes for equal to a
// value of another type.
class Key {
 public:
  void add(PyObject* part) { parts_.push_back(py::reinterpret_borrow<py::object>(part)); }
  void add(py::object part) { parts_.push_back(std::move(part)); }

  py::tuple tuple() {
    py::tuple result(parts_.size());
    for (size_t i = 0; i < parts_.size(); ++i) result[i] = std::move(parts_[i]);
    return result;
  }

 private:
  std::vector<py::object> parts_;
};

bool is_int(PyObject* object) { return PyLong_CheckExact(object) != 0; }

bool only_ints(PyObject* sequence) {
  PyObject** items = PySequence_Fast_ITEMS(sequence);
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (!is_int(items[i])) return false;
  }
  return true;
}

py::object attribute(PyObject* object, PyObject* name) {
  py::object value = py::reinterpret_steal<py::object>(PyObject_GetAttr(object, name));
  if (!value) throw py::error_already_set();
  return value;
}

// MindSpore's, which outlive every call.
struct Types {
  PyObject* tensor;
  PyObject* dtypes;  // a tuple
};

// Index of this very object; -1 if it is not there.
Py_ssize_t place_of(PyObject* object, PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    if (PyTuple_GET_ITEM(tuple, i) == object) return i;
  }
  return -1;
}

// False where more of the argument counts than what a key tells.
bool add_argument(PyObject* argument, const Types& types, bool read, Key& key) {
  static PyObject* const dtype = PyUnicode_InternFromString("dtype");
  static PyObject* const shape = PyUnicode_InternFromString("shape");
  if (argument == Py_None || is_int(argument) || PyUnicode_CheckExact(argument)) {
    key.add(argument);
  } else if (PyFloat_CheckExact(argument) || PyBool_Check(argument)) {
    key.add(reinterpret_cast<PyObject*>(Py_TYPE(argument)));
    key.add(argument);
  } else if (PyObject_TypeCheck(argument, reinterpret_cast<PyTypeObject*>(types.tensor))) {
    if (read) return false;
    // Not the dtype, whose hash is a call of MindSpore.
    const Py_ssize_t place = place_of(attribute(argument, dtype).ptr(), types.dtypes);
    if (place < 0) return false;
    key.add(types.tensor);
    key.add(py::int_(place));
    key.add(attribute(argument, shape));
  } else if (PyTuple_CheckExact(argument) || PyList_CheckExact(argument)) {
    if (!only_ints(argument)) return false;
    key.add(reinterpret_cast<PyObject*>(Py_TYPE(argument)));
    key.add(py::reinterpret_steal<py::object>(PySequence_Tuple(argument)));
  } else {
    return false;
  }
  return true;
}

py::object call_key(const py::object& target, const py::tuple& arguments, const py::type& tensor,
                    const py::tuple& dtypes, uint64_t read) {
  Key key;
  key.add(target.ptr());
  const Types types{tensor.ptr(), dtypes.ptr()};
  for (size_t i = 0; i < arguments.size(); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i));
    if (!add_argument(argument, types, ((read >> i) & 1) != 0, key)) return py::none();
  }
  return key.tuple();
}

}  // namespace

void bind_call_key(py::module_& module) {
  module.def(
      "call_key", &call_key, py::arg("target"), py::arg("arguments"), py::arg("tensor"),
      py::arg("dtypes"), py::arg("read"),
      "What two calls that are planned alike have in common, hashable: None, ints, strs, "
      "floats, bools, tuples and lists of ints, and of Tensors the shape and the place of the "
      "dtype among these. None where something else is among the arguments, or a Tensor at "
      "one of the places `read`, bits.");
}

}  // namespace nsa
