// What the main program of a kernel under CPU debugging includes.
#pragma once

#include "ascendc/cpu_twin/device/icpu.h"
#include "kernel_operator.h"
