// A call of a Custom operator as MindSpore makes it: the text that mindspore_nsa/ops gave it, its
// Tensors, and the end of an error in a graph.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "binding/custom_extra.h"
#include "infer/op.h"

namespace nsa {

// MindSpore never runs a graph again of which an operator has failed, whatever its inputs are then.
inline constexpr const char* kGraphNote =
    "; MindSpore does not run this graph again: compile_cache.clear() of the Cell that was called, "
    "or mindspore.jit of the function once more, compiles another";

// The text of the one attribute; the view holds until the next call on this thread.
inline std::string_view attr_text(void* extra) {
  constexpr const char* kAttrsName = "nsa_attrs";  // set by mindspore_nsa/ops
  thread_local std::string buffer(1024, '\0');
  size_t size = nsa_custom_string_attr(extra, kAttrsName, buffer.data(), buffer.size());
  if (size > buffer.size()) {
    buffer.resize(size);
    size = nsa_custom_string_attr(extra, kAttrsName, buffer.data(), buffer.size());
  }
  return {buffer.data(), size};
}

// The Tensor at a place of the call.
inline void set_tensor(TensorDesc& tensor, int index, void** params, int* ndims, int64_t** shapes,
                       const char** dtypes) {
  tensor.present = true;
  tensor.data = params[index];
  tensor.shape.assign(shapes[index], shapes[index] + ndims[index]);
  if (!dtype_from_name(dtypes[index], &tensor.dtype)) {
    throw std::invalid_argument("unknown dtype " + std::string(dtypes[index]));
  }
}

}  // namespace nsa
