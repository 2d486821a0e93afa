// Kernels for Python without MindSpore: NumPy arrays in, NumPy arrays out.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstring>
#include <optional>

#include "binding/ascend_twin.h"
#include "binding/bindings.h"
#include "binding/op_call.h"
#include "binding/python_args.h"
#include "cpu/runtime.h"

namespace py = pybind11;

namespace nsa {

namespace {

// NumPy has no bfloat16: such a tensor is the pair ("bfloat16", uint16 array of its bits).
CallTensor read_tensor(const py::handle& item, std::vector<py::array>& keep) {
  CallTensor tensor;
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
  // A contiguous array is taken as it stands, whatever its alignment.
  py::array array = py::array::ensure(source, py::array::c_style);
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
  keep.push_back(std::move(array));
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

std::vector<OutputDesc> output_descs(const std::string& op, const std::vector<CallTensor>& inputs,
                                     const Attrs& attrs, Target rules) {
  std::vector<TensorDesc> descs(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    descs[i].present = inputs[i].present;
    descs[i].dtype = inputs[i].dtype;
    descs[i].shape = inputs[i].shape;
  }
  return infer(op, descs, attrs, rules);
}

// The number of threads of one call, put back afterwards.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : set_(threads > 0) {
    if (set_) cpu::set_num_threads(threads);
  }
  ~ThreadCount() {
    if (set_) cpu::set_num_threads(0);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  bool set_;
};

const Kernels& kernels_of(const std::string& target) {
  if (target == "cpu") return kCpuKernels;
  if (target == "ascend_twin") return kAscendTwinKernels;
  throw OpError(OpError::kValue, "target must be 'cpu' or 'ascend_twin', got '" + target + "'");
}

py::list run_in_python(const std::string& op, const py::sequence& inputs, const py::dict& attrs,
                       int num_threads, const std::string& target) {
  const Kernels& kernels = kernels_of(target);
  std::vector<py::array> keep, results;
  std::vector<CallTensor> in, out;
  for (const py::handle item : inputs) in.push_back(read_tensor(item, keep));
  const Attrs values = read_attrs(schema(op), attrs);
  const std::vector<OutputDesc> descs = output_descs(op, in, values, kernels.rules);
  for (const OutputDesc& desc : descs) {
    results.push_back(allocate(desc));
    out.push_back({results.back().mutable_data(), desc.dtype, desc.shape});
  }
  {
    const ThreadCount threads(num_threads);
    const py::gil_scoped_release release;
    call(op, in, out, values, kernels);
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
             py::arg("num_threads") = 0, py::arg("target") = "cpu",
             "Runs a native operator on NumPy arrays and returns its outputs. An input is None, an "
             "array, or (\"bfloat16\", uint16 array); bfloat16 outputs come back likewise. target: "
             "'cpu' or 'ascend_twin'.");
  module.def("isa", &cpu::isa, "The instruction set in use.");
  module.def("available_isas", &cpu::available_isas,
             "Instruction sets that this build has and this machine runs, best first.");
  module.def("set_isa", &cpu::set_isa, py::arg("name"));
  module.def("num_threads", &cpu::num_threads, "Threads that a kernel uses.");
  module.def("set_num_threads", &cpu::set_num_threads, py::arg("threads"),
             "Threads that every kernel uses from now on; 0: as many as OpenMP and the affinity of "
             "the process give.");
  module.def("scratch_high_water", &cpu::scratch_high_water,
             "Most bytes of scratch held at once since the last reset.");
  module.def("reset_scratch_high_water", &cpu::reset_scratch_high_water);
}

}  // namespace nsa
