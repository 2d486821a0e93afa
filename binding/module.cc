#include "binding/bindings.h"

PYBIND11_MODULE(_native, module) {
  module.doc() = "Inference and kernels of mindspore_nsa, without MindSpore.";
  nsa::bind_infer(module);
  nsa::bind_ascend(module);
  nsa::bind_call_key(module);
  nsa::bind_run(module);
}
