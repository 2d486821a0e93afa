// What of CANN's Matmul library the twin has: everything but the object.
#pragma once

#include "kernel_operator.h"
#include "twin/adv/matmul.h"
