// The vector instructions of dav-c220.
#pragma once

#include "twin/vector/cast.h"
#include "twin/vector/compare.h"
#include "twin/vector/elementwise.h"
#include "twin/vector/fill.h"
#include "twin/vector/gather.h"
#include "twin/vector/mask.h"
#include "twin/vector/reduce.h"
#include "twin/vector/sort.h"
#include "twin/vector/transpose.h"
