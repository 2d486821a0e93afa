// The main program of a kernel under CPU debugging includes this file.
#pragma once

#include "kernel_operator.h"
#include "twin/device/icpu.h"
