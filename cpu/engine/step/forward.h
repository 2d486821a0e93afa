// The ways of a forward call that the unit being compiled has.
#pragma once

#include "cpu/engine/step/forward_wave.h"
#ifdef NSA_ISA_AMX
#include "cpu/engine/step/amx_forward.h"
#include "cpu/engine/step/forward_pieces.h"
#endif
