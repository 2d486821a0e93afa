// Host side of the high-level kernel APIs.
#pragma once

#include "lib/activation/softmax_tiling.h"
#include "lib/pad/broadcast_tiling.h"
#include "lib/select/selectwithbytesmask_tiling.h"
#include "lib/sort/topk_tiling.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"
