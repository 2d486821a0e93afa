// The twin has this of CANN's Matmul library: everything but the object.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "kernel_operator.h"
#include "twin/adv/matmul.h"

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
