// Tiling data of ScaleAdd by macros, with every kind of field.
#pragma once

#include "register/tilingdata_base.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ScaleAddShare)
TILING_DATA_FIELD_DEF(uint8_t, flag);
TILING_DATA_FIELD_DEF(int64_t, length);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ScaleAddShareOp, ScaleAddShare)

BEGIN_TILING_DATA_DEF(ScaleAddTilingData)
TILING_DATA_FIELD_DEF(uint16_t, hasZ);
TILING_DATA_FIELD_DEF(float, a);
TILING_DATA_FIELD_DEF_STRUCT(ScaleAddShare, share);
TILING_DATA_FIELD_DEF_ARR(int32_t, 3, steps);
TILING_DATA_FIELD_DEF(float, b);
TILING_DATA_FIELD_DEF(float, offset);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ScaleAdd, ScaleAddTilingData)

}  // namespace optiling
