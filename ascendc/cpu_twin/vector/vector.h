// The vector instructions of dav-c220.
#pragma once

#include "ascendc/cpu_twin/vector/cast.h"
#include "ascendc/cpu_twin/vector/compare.h"
#include "ascendc/cpu_twin/vector/elementwise.h"
#include "ascendc/cpu_twin/vector/fill.h"
#include "ascendc/cpu_twin/vector/gather.h"
#include "ascendc/cpu_twin/vector/mask.h"
#include "ascendc/cpu_twin/vector/reduce.h"
#include "ascendc/cpu_twin/vector/sort.h"
#include "ascendc/cpu_twin/vector/transpose.h"
