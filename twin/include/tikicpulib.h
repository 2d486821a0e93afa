// What the main program of a kernel under CPU debugging includes.
#pragma once

#include "kernel_operator.h"
#include "twin/device/icpu.h"
