// The high-level APIs of dav-c220 that the twin has. Each runs as one instruction of PIPE_V.
#pragma once

#include "twin/adv/arange.h"
#include "twin/adv/broadcast.h"
#include "twin/adv/confusion_transpose.h"
#include "twin/adv/cumsum.h"
#include "twin/adv/dropout.h"
#include "twin/adv/fill.h"
#include "twin/adv/log.h"
#include "twin/adv/reduce_axis.h"
#include "twin/adv/select_bytes.h"
#include "twin/adv/sigmoid.h"
#include "twin/adv/silu.h"
#include "twin/adv/softmax.h"
#include "twin/adv/tiling_data.h"
#include "twin/adv/topk.h"
