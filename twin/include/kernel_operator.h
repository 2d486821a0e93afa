// A kernel includes this file.
#pragma once

// clang-format off: first of all includes.
#include "twin/device/macros_off.h"
// clang-format on

#include "twin/adv/adv.h"
#include "twin/cube/cube.h"
#include "twin/device/allocator.h"
#include "twin/device/core.h"
#include "twin/device/data_copy.h"
#include "twin/device/entry.h"
#include "twin/device/group_barrier.h"
#include "twin/device/list_tensor.h"
#include "twin/device/print.h"
#include "twin/device/saturation.h"
#include "twin/device/slice.h"
#include "twin/device/sync.h"
#include "twin/device/tbufpool.h"
#include "twin/device/tpipe.h"
#include "twin/device/type_numbers.h"
#include "twin/device/words.h"
#include "twin/vector/vector.h"

// clang-format off: last of all includes.
#include "twin/device/macros_on.h"
// clang-format on
