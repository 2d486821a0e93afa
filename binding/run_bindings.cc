// Kernels for Python without MindSpore: NumPy arrays in, NumPy arrays out.
#include <cxxabi.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "binding/ascend_twin.h"
#include "binding/bindings.h"
#include "binding/failure.h"
#include "binding/op_call.h"
#include "binding/python_args.h"
#include "cpu/runtime.h"

namespace py = pybind11;

namespace nsa {

namespace {

// A contiguous array of the machine's byte order is taken as it stands, whatever its alignment.
py::array contiguous(const py::array& array) {
  const bool native = py::cast<bool>(array.dtype().attr("isnative"));
  if (native && (array.flags() & py::array::c_style) != 0) return array;
  // NumPy's own function, for its error where there is no memory for the copy.
  return py::module_::import("numpy").attr("array")(
      array, py::arg("dtype") = array.dtype().attr("newbyteorder")("="), py::arg("order") = "C");
}

// NumPy has no bfloat16: such a tensor is the pair ("bfloat16", uint16 array of its bits).
TensorDesc read_tensor(const py::handle& item, std::vector<py::array>& keep) {
  TensorDesc tensor;
  if (item.is_none()) {
    tensor.present = false;
    return tensor;
  }
  std::string dtype_text;
  py::handle source = item;
  if (py::isinstance<py::tuple>(item)) {
    const auto pair = py::reinterpret_borrow<py::tuple>(item);
    if (pair.size() != 2) throw py::type_error("a tensor is an array or (dtype name, bits)");
    dtype_text = py::cast<std::string>(pair[0]);
    source = pair[1];
  }
  if (!py::isinstance<py::array>(source)) {
    throw py::type_error("a tensor must be a NumPy array, got " +
                         std::string(Py_TYPE(source.ptr())->tp_name));
  }
  const py::array array = contiguous(py::reinterpret_borrow<py::array>(source));
  if (dtype_text.empty()) dtype_text = py::cast<std::string>(array.dtype().attr("name"));
  if (!dtype_from_name(dtype_text, &tensor.dtype)) {
    throw py::type_error("unsupported dtype " + dtype_text);
  }
  if (array.itemsize() != dtype_size(tensor.dtype)) {
    throw py::type_error("bits of " + dtype_text + " in elements of " +
                         std::to_string(array.itemsize()) + " bytes");
  }
  tensor.data = const_cast<void*>(array.data());
  tensor.shape.assign(array.shape(), array.shape() + array.ndim());
  keep.push_back(array);
  return tensor;
}

// Not a number in every floating type; whatever a kernel leaves unwritten shows.
constexpr int kPoison = 0xFF;

py::array allocate(const OutputDesc& desc) {
  const char* name = desc.dtype == DType::kBFloat16 ? "uint16" : dtype_name(desc.dtype);
  py::array array(py::dtype::from_args(py::str(name)), desc.shape);
  std::memset(array.mutable_data(), kPoison, array.nbytes());
  return array;
}

// A number of threads; 0: as many as OpenMP and the affinity of the process give.
int read_threads(const char* function, const char* name, const py::object& object) {
  const Argument argument{function, name};
  int64_t threads = 0;
  bool fits = true;
  try {
    if (!read_int(argument, object.ptr(), &threads)) fail_type(argument, "an int", object.ptr());
  } catch (const OpError& error) {
    if (error.kind == OpError::kType) throw;
    fits = false;
  }
  if (!fits || threads < 0 || threads > cpu::kMaxThreads) {
    const std::string range = "between 0 and " + std::to_string(cpu::kMaxThreads);
    throw OpError(OpError::kValue, std::string(function) + ": " + name + " must be " + range +
                                       ", got " + std::string(py::str(object)));
  }
  return static_cast<int>(threads);
}

const Backend& backend_of(const std::string& target) {
  if (target == "cpu") return kCpuBackend;
  if (target == "ascend_twin") {
    py::module_::import("mindspore_nsa._ascend_twin").attr("load")();
    return kAscendTwinBackend;
  }
  throw OpError(OpError::kValue, "target must be 'cpu' or 'ascend_twin', got '" + target + "'");
}

// Lets other Python threads run while a kernel does. When the interpreter has ended, CPython up to
// 3.13 ends a daemon thread that comes back by unwinding its stack, which a destructor would turn
// into an abort of the whole process. Such a thread stays here until the process has ended.
class OthersRun {
 public:
  OthersRun() : state_(PyEval_SaveThread()) {}
  OthersRun(const OthersRun&) = delete;
  OthersRun& operator=(const OthersRun&) = delete;
  ~OthersRun() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      for (;;) pause();
    }
  }

 private:
  PyThreadState* state_;
};

py::list run_in_python(const std::string& op, const py::sequence& inputs, const py::dict& attrs,
                       const py::object& num_threads, const std::string& target) {
  const Backend& backend = backend_of(target);
  const int threads = read_threads("run", "num_threads", num_threads);
  std::vector<py::array> keep, results;
  std::vector<TensorDesc> in, out;
  for (const py::handle item : inputs) in.push_back(read_tensor(item, keep));
  const BoundAttrs values(schema(op), read_attrs(schema(op), attrs));
  const std::vector<OutputDesc> descs = infer(Context(values, in, backend.rules));
  for (const OutputDesc& desc : descs) {
    results.push_back(allocate(desc));
    out.push_back({true, desc.dtype, true, desc.shape, nullptr, results.back().mutable_data()});
  }
  {
    const cpu::ThreadCount count(threads);
    const OthersRun release;
    check_and_run(values, in, out, backend);
  }
  py::list list;
  for (size_t i = 0; i < descs.size(); ++i) {
    if (descs[i].dtype == DType::kBFloat16) {
      list.append(py::make_tuple(dtype_name(descs[i].dtype), results[i]));
    } else {
      list.append(results[i]);
    }
  }
  return list;
}

}  // namespace

void bind_run(py::module_& module) {
  module.def("run", &run_in_python, py::arg("op"), py::arg("inputs"), py::arg("attrs"),
             py::arg("num_threads") = py::int_(0), py::arg("target") = "cpu",
             "Runs a native operator on NumPy arrays and returns its outputs. An input is None, an "
             "array, or (\"bfloat16\", uint16 array); bfloat16 outputs come back likewise. target: "
             "'cpu' or 'ascend_twin'.");
  module.def(
      "last_failure",
      [] {
        constexpr const char* kCodes[] = {"none", "written cast", "other"};
        const Failure failure = last_failure();
        return py::make_tuple(kCodes[static_cast<int>(failure.code)], failure.text);
      },
      "Why a Custom of this library failed last: a code ('none', 'written cast' or 'other') and "
      "the "
      "text of its error, to which MindSpore adds.");
  module.def("isa", &cpu::isa, "The instruction set in use.");
  module.def("available_isas", &cpu::available_isas,
             "Instruction sets that this build has and this machine runs, best first.");
  module.def("set_isa", &cpu::set_isa, py::arg("name"));
  module.def("num_threads", &cpu::num_threads, "Threads that a kernel uses.");
  module.def(
      "set_num_threads",
      [](const py::object& threads) {
        cpu::set_num_threads(read_threads("set_num_threads", "threads", threads));
      },
      py::arg("threads"),
      "Threads that every kernel uses from now on; 0: as many as OpenMP and the affinity of "
      "the process give.");
  module.def("scratch_high_water", &cpu::scratch_high_water,
             "Most bytes of scratch held at once since the last reset.");
  module.def("reset_scratch_high_water", &cpu::reset_scratch_high_water);
}

}  // namespace nsa
