// printf, DumpTensor and ascendc_assert of a kernel.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "twin/device/print.h"

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
