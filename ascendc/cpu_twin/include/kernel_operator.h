// What a kernel includes.
#pragma once

#include "ascendc/cpu_twin/device/core.h"
#include "ascendc/cpu_twin/device/data_copy.h"
#include "ascendc/cpu_twin/device/entry.h"
#include "ascendc/cpu_twin/device/saturation.h"
#include "ascendc/cpu_twin/device/sync.h"
#include "ascendc/cpu_twin/device/tpipe.h"
#if __has_include("ascendc/cpu_twin/vector/vector.h")
#include "ascendc/cpu_twin/vector/vector.h"
#endif
#if __has_include("ascendc/cpu_twin/adv/adv.h")
#include "ascendc/cpu_twin/adv/adv.h"
#endif
#if __has_include("ascendc/cpu_twin/cube/cube.h")
#include "ascendc/cpu_twin/cube/cube.h"
#endif
