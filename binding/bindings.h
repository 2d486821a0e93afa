// The parts of the Python module mindspore_nsa._native, each bound in its own unit.
#pragma once

#include <pybind11/pybind11.h>

namespace nsa {

void bind_ascend(pybind11::module_& module);
void bind_call_key(pybind11::module_& module);
void bind_infer(pybind11::module_& module);
void bind_run(pybind11::module_& module);

}  // namespace nsa
