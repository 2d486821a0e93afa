// The cube side of dav-c220: moves into L1, L0A, L0B and the tables, Mmad, Fixpipe.
#pragma once

#include "twin/cube/fill_cube.h"
#include "twin/cube/fixpipe.h"
#include "twin/cube/load_data.h"
#include "twin/cube/mmad.h"
#include "twin/cube/move.h"
