// Host side of the high-level kernel APIs.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "lib/activation/softmax_tiling.h"
#include "lib/pad/broadcast_tiling.h"
#include "lib/select/selectwithbytesmask_tiling.h"
#include "lib/sort/topk_tiling.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
