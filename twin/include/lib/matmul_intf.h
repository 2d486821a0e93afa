// The twin has this of CANN's Matmul library: everything but the object.
#pragma once

#include "kernel_operator.h"
#include "twin/adv/matmul.h"
