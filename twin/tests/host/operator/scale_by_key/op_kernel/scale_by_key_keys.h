// The instances of ScaleByKey, for its host side and its kernel.
#pragma once

#include "ascendc/host_api/tiling/template_argument.h"

#ifndef ORIG_DTYPE_X
#define ORIG_DTYPE_X (-1)
#endif

ASCENDC_TPL_ARGS_DECL(ScaleByKey, ASCENDC_TPL_DATATYPE_DECL(T, ASCENDC_TPL_INPUT(0)),
                      ASCENDC_TPL_UINT_DECL(FACTOR, ASCENDC_TPL_4_BW, ASCENDC_TPL_UI_MIX, 2, 1, 3,
                                            5, 6, 20, 10),
                      ASCENDC_TPL_BOOL_DECL(NEGATE, 0, 1),
                      ASCENDC_TPL_FORMAT_DECL(FORMAT, C_FORMAT_ND, C_FORMAT_NCHW), );

ASCENDC_TPL_SEL(ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_KERNEL_TYPE_SEL(ASCENDC_TPL_AIV_ONLY),
                                     ASCENDC_TPL_DATATYPE_SEL(T, C_DT_FLOAT16, C_DT_FLOAT),
                                     ASCENDC_TPL_UINT_SEL(FACTOR, ASCENDC_TPL_UI_RANGE, 1, 2, 3),
                                     ASCENDC_TPL_BOOL_SEL(NEGATE, 0, 1),
                                     ASCENDC_TPL_FORMAT_SEL(FORMAT, C_FORMAT_ND), ),
#if ORIG_DTYPE_X == DT_FLOAT
                ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_KERNEL_TYPE_SEL(ASCENDC_TPL_MIX_AIV_1_0),
                                     ASCENDC_TPL_DATATYPE_SEL(T, C_DT_FLOAT),
                                     ASCENDC_TPL_UINT_SEL(FACTOR, ASCENDC_TPL_UI_LIST, 10, 6),
                                     ASCENDC_TPL_BOOL_SEL(NEGATE, 0),
                                     ASCENDC_TPL_FORMAT_SEL(FORMAT, C_FORMAT_ND, C_FORMAT_NCHW), ),
#endif
                ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_DETERMINISTIC_SEL(1),
                                     ASCENDC_TPL_DATATYPE_SEL(T, C_DT_FLOAT16),
                                     ASCENDC_TPL_UINT_SEL(FACTOR, ASCENDC_TPL_UI_LIST, 20),
                                     ASCENDC_TPL_BOOL_SEL(NEGATE, 0),
                                     ASCENDC_TPL_FORMAT_SEL(FORMAT, C_FORMAT_ND), ), );
