// Tiling data of the high-level APIs as structs.
#pragma once

#include "twin/adv/tiling_data.h"
