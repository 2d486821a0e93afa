// Inference for Python: every check of a public function passes through here.
#include <pybind11/stl.h>

#include "binding/ascend_signature.h"
#include "binding/bindings.h"
#include "binding/python_args.h"
#include "infer/check.h"
#include "infer/op.h"
#include "infer/seq.h"

namespace py = pybind11;

namespace nsa {

namespace {

Target read_target(const std::string& name) {
  if (name == "cpu") return Target::kCpu;
  // The twin stands for the device, limits included.
  if (name == "ascend" || name == "ascend_twin") return Target::kAscend;
  throw OpError(OpError::kValue,
                "target must be 'cpu', 'ascend' or 'ascend_twin', got '" + name + "'");
}

py::list infer_in_python(const std::string& op, const py::sequence& inputs, const py::dict& attrs,
                         const std::string& target, const std::string& function) {
  OpSchema op_schema = schema(op);
  if (!function.empty()) op_schema.function = function.c_str();
  const PythonInputs described_inputs(op_schema, inputs);
  const BoundAttrs bound(op_schema, read_attrs(op_schema, attrs));
  const Context context(bound, described_inputs.descs, read_target(target));
  refuse_dropped(context);
  const std::vector<OutputDesc> outputs = infer(context);
  py::list result(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    py::tuple shape(outputs[i].shape.size());
    for (size_t axis = 0; axis < outputs[i].shape.size(); ++axis) {
      shape[axis] = py::int_(outputs[i].shape[axis]);
    }
    result[i] = py::make_tuple(dtype_name(outputs[i].dtype), shape);
  }
  return result;
}

py::object fallback_of(const AttrSpec& spec) {
  if (spec.required) return py::none();
  switch (spec.type) {
    case AttrType::kInt:
      return py::int_(std::get<int64_t>(spec.fallback));
    case AttrType::kFloat:
      return py::float_(std::get<double>(spec.fallback));
    case AttrType::kString:
      return py::str(std::get<std::string>(spec.fallback));
  }
  return py::none();
}

// None where the declaration bounds nothing.
py::object bound_of(const AttrSpec& spec, int64_t bound, int64_t none) {
  if (spec.type != AttrType::kInt || spec.min == kNoMin || bound == none) return py::none();
  return py::int_(bound);
}

const char* elements_name(Elements elements) {
  switch (elements) {
    case Elements::kFloat:
      return "float";
    case Elements::kSameFloat:
      return "same float";
    case Elements::kFloat32:
      return "float32";
    case Elements::kInt32:
      return "int32";
    case Elements::kInt64:
      return "int64";
    case Elements::kUint8:
      return "uint8";
    case Elements::kMask:
      return "mask";
    case Elements::kList:
    case Elements::kRowList:
      return "list";
    case Elements::kByRules:
      return "by rules";
  }
  return "";
}

// Texts of the declaration, one for each layout.
py::list shapes_of(const ShapeTable& table, const ShapeForms& forms) {
  py::list texts;
  for (size_t i = 0; i < forms.count; ++i) {
    const std::string_view text = table.shape(forms.first + i).text;
    texts.append(py::str(text.data(), text.size()));
  }
  return texts;
}

py::dict schema_in_python(const std::string& op) {
  const OpSchema& op_schema = schema(op);
  py::list inputs, attrs, outputs;
  for (const InputSpec& input : op_schema.inputs) {
    inputs.append(py::dict(py::arg("name") = input.name, py::arg("optional") = input.optional,
                           py::arg("list") = input.list(),
                           py::arg("elements") = elements_name(input.elements),
                           py::arg("shapes") = shapes_of(op_schema.inputs.shapes(), input.shapes)));
  }
  constexpr const char* kTypeNames[] = {"int", "float", "str"};
  for (const AttrSpec& attr : op_schema.attrs) {
    attrs.append(py::dict(
        py::arg("name") = attr.name, py::arg("type") = kTypeNames[static_cast<int>(attr.type)],
        py::arg("flag") = attr.flag, py::arg("required") = attr.required,
        py::arg("default") = fallback_of(attr), py::arg("min") = bound_of(attr, attr.min, kNoMin),
        py::arg("max") = bound_of(attr, attr.max, kNoMax)));
  }
  for (const OutputSpec& output : op_schema.outputs) outputs.append(output.name);
  return py::dict(py::arg("name") = op_schema.name, py::arg("function") = op_schema.function,
                  py::arg("inputs") = inputs, py::arg("attrs") = attrs,
                  py::arg("outputs") = outputs);
}

// A list of prefix sums with the window of a compression, checked: what the helpers below take.
SeqList read_windows(const char* function, const py::object& list, const py::object& l,
                     const py::object& s, int64_t* block, int64_t* stride) {
  const auto read = [&](const char* name, const py::object& object, int64_t* value) {
    const Argument argument{function, name};
    if (!read_int(argument, object.ptr(), value)) fail_type(argument, "an int", object.ptr());
  };
  read("compress_block_size", l, block);
  read("compress_stride", s, stride);
  SeqList values = read_ints({function, "actual_seq_len"}, list.ptr());
  check_prefix_sums(values, {function, "actual_seq_len", "T", -1, ListEnd::kAny});
  check_window(function, *block, *stride);
  return values;
}

}  // namespace

void bind_infer(py::module_& module) {
  py::register_exception_translator([](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
    } catch (const OpError& e) {
      const py::handle type = e.kind == OpError::kType ? PyExc_TypeError : PyExc_ValueError;
      const py::object exception = type(e.what());
      exception.attr("aclnn_code") = e.aclnn_code;
      PyErr_SetObject(type.ptr(), exception.ptr());
    }
  });
  module.def("infer", &infer_in_python, py::arg("op"), py::arg("inputs"), py::arg("attrs"),
             py::arg("target") = "cpu", py::arg("function") = "",
             "Checks a call and returns its outputs as (dtype name, shape). An input is None or "
             "(dtype name or None, shape or None, values or None). Errors name the function, or "
             "that of the operator.");
  module.def("schema", &schema_in_python, py::arg("op"),
             "Inputs, attributes and outputs of an operator.");
  module.def("rules_called", &rules_called,
             "How often the rules of an operator have been called in this process.");
  module.def("op_names", &op_names, "Names of the native operators.");
  module.def(
      "compressed_rows",
      [](const py::object& list, const py::object& l, const py::object& s) {
        int64_t block = 0, stride = 0;
        const SeqList values = read_windows("compressed_rows", list, l, s, &block, &stride);
        return compressed_rows(values, block, stride);
      },
      py::arg("actual_seq_len"), py::arg("compress_block_size"), py::arg("compress_stride"),
      "Rows of nsa_compress: the windows of all segments.");
  module.def(
      "compressed_seq_len",
      [](const py::object& list, const py::object& l, const py::object& s) {
        int64_t block = 0, stride = 0;
        const SeqList values = read_windows("compressed_seq_len", list, l, s, &block, &stride);
        const SeqList sums = compressed_seq_len(values, block, stride);
        py::tuple result(sums.size());
        for (size_t b = 0; b < sums.size(); ++b) result[b] = py::int_(sums[b]);
        return result;
      },
      py::arg("actual_seq_len"), py::arg("compress_block_size"), py::arg("compress_stride"),
      "Prefix sums of the windows per segment.");
  module.def(
      "selection_blocks",
      [](int64_t cmp_len, int64_t query_end, int64_t l, int64_t s, int64_t select_block_size,
         bool causal, const std::string& importance) {
        check_window("selection_blocks", l, s);
        if (importance != "cann" && importance != "overlap") {
          throw OpError(OpError::kValue,
                        "selection_blocks: importance must be one of 'cann', 'overlap', got '" +
                            importance + "'");
        }
        if (select_block_size < s) {
          throw OpError(OpError::kValue,
                        "selection_blocks: select_block_size must be at least compress_stride (" +
                            std::to_string(s) + "), got " + std::to_string(select_block_size));
        }
        const Importance kind = importance == "overlap" ? Importance::kOverlap : Importance::kCann;
        return selection_blocks({l, s, select_block_size, causal, kind}, cmp_len, query_end);
      },
      py::arg("cmp_len"), py::arg("query_end"), py::arg("compress_block_size"),
      py::arg("compress_stride"), py::arg("select_block_size"), py::arg("causal"),
      py::arg("importance"),
      "Selection blocks of one segment of cmp_len compressed tokens; query_end is its offset plus "
      "its queries.");
}

}  // namespace nsa
