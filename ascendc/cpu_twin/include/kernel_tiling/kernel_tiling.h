// Tiling data of the high-level APIs as structs.
#pragma once

#include "ascendc/cpu_twin/adv/tiling_data.h"
