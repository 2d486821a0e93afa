// The main program of a kernel under CPU debugging includes this file.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "kernel_operator.h"
#include "twin/device/icpu.h"

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
