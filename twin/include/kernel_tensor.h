// CANN has the tensors in a header of their own.
#pragma once

#include "kernel_operator.h"
