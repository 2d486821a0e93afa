// The cube side of dav-c220: moves into L1, L0A, L0B and the tables, Mmad, Fixpipe.
#pragma once

#include "ascendc/cpu_twin/cube/fill_cube.h"
#include "ascendc/cpu_twin/cube/fixpipe.h"
#include "ascendc/cpu_twin/cube/load_data.h"
#include "ascendc/cpu_twin/cube/mmad.h"
#include "ascendc/cpu_twin/cube/move.h"
