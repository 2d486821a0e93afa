// Lists of tensors.
#pragma once

#include "twin/device/list_tensor.h"
