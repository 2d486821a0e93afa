// printf, DumpTensor and ascendc_assert of a kernel.
#pragma once

#include "twin/device/print.h"
