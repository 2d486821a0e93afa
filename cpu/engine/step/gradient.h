// The ways of a gradient that the unit being compiled has.
#pragma once

#include "cpu/engine/step/grad_steps.h"
#ifdef NSA_ISA_AMX
#include "cpu/engine/step/grad_groups.h"
#endif
