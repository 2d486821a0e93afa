// Makes a kernel known, from the unit that the generator writes around it.
#pragma once

#include <cstddef>

#include "twin/device/where.h"

namespace twin {

// Calls a kernel with its arguments: addresses of inputs, outputs, workspace and tiling data.
using KernelFunction = void (*)(void* const* arguments);

// The kernel of one combination of dtypes and formats.
struct TWIN_API KernelRegistration {
  KernelRegistration(const char* op_type, size_t combination, const char* name,
                     KernelFunction function);
};

}  // namespace twin
