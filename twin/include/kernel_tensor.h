// CANN has the tensors in a header of their own.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "kernel_operator.h"

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
