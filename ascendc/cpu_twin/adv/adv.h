// The high-level APIs of dav-c220 that the twin has. Each runs as one instruction of PIPE_V.
#pragma once

#include "ascendc/cpu_twin/adv/broadcast.h"
#include "ascendc/cpu_twin/adv/fill.h"
#include "ascendc/cpu_twin/adv/select_bytes.h"
#include "ascendc/cpu_twin/adv/softmax.h"
#include "ascendc/cpu_twin/adv/tiling_data.h"
#include "ascendc/cpu_twin/adv/topk.h"
