// Lists of tensors.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "twin/device/list_tensor.h"

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
