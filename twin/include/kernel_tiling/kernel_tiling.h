// Tiling data of the high-level APIs as structs.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "twin/adv/tiling_data.h"

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
