// Host side of the high-level kernel APIs. The twin's kernels use the basic ones, whose tiling is
// plain arithmetic.
#pragma once

#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"
