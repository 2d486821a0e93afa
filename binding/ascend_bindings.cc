// The Ascend operators for Python: which there are, and what their aclnn functions take.
#include <pybind11/stl.h>

#include "ascendc/common/op_host/dtypes.h"
#include "binding/ascend_signature.h"
#include "binding/ascend_twin.h"
#include "binding/bindings.h"

namespace py = pybind11;

namespace nsa {

namespace {

py::object default_of(const AclnnParameter& parameter) {
  switch (parameter.kind) {
    case AclnnKind::kBool:
      return py::bool_(parameter.default_integer != 0);
    case AclnnKind::kInt:
      return py::int_(parameter.default_integer);
    case AclnnKind::kFloat:
      return py::float_(parameter.default_number);
    case AclnnKind::kString:
      return py::str(parameter.default_string);
    default:
      return py::none();
  }
}

py::list signature_in_python(const std::string& op, const std::string& target,
                             const std::string& function) {
  constexpr const char* kKinds[] = {"tensor", "listInt", "listFloat", "listBool",
                                    "bool",   "double",  "int",       "str"};
  constexpr const char* kRoles[] = {"input", "attr", "output"};
  constexpr const char* kSources[] = {"input", "attr", "output"};
  py::list arguments;
  for (const AscendArgument& argument : ascend_signature(op, target, function).arguments) {
    const AclnnParameter& parameter = *argument.parameter;
    py::list dtypes;
    for (aclDataType dtype : parameter.dtypes) {
      dtypes.append(dtype_name(ascend::dtype_of(static_cast<ge::DataType>(dtype))));
    }
    const bool named = argument.source != AscendArgument::kNone;
    const py::object source = named ? py::object(py::str(kSources[argument.source])) : py::none();
    arguments.append(py::dict(py::arg("name") = parameter.name,
                              py::arg("role") = kRoles[static_cast<int>(parameter.role)],
                              py::arg("kind") = kKinds[static_cast<int>(parameter.kind)],
                              py::arg("optional") = parameter.optional, py::arg("dtypes") = dtypes,
                              py::arg("source") = source, py::arg("index") = argument.index,
                              py::arg("factor") = argument.factor,
                              py::arg("default") = default_of(parameter)));
  }
  return arguments;
}

}  // namespace

void bind_ascend(py::module_& module) {
  module.def("ascend_operators", &ascend_operators, "Names of the operators with Ascend kernels.");
  module.def("open_ascend_twin", &open_ascend_twin, py::arg("libraries"),
             "Opens the libraries of target 'ascend_twin', the operators' own last.");
  module.def("ascend_type", &ascend_type, py::arg("op"),
             "The type of an operator's Ascend kernel, after which its aclnn function is named.");
  module.def(
      "ascend_signature", &signature_in_python, py::arg("op"), py::arg("target") = "ascend",
      py::arg("function") = "",
      "The arguments of an operator's aclnn function, in its order. source: what in schema(op) "
      "an argument is, and index its place there; None: it is absent or its default. "
      "ValueError, which names the target and the function, or that of the operator, for an "
      "operator without an Ascend kernel.");
}

}  // namespace nsa
