// A call of FlashAttentionScore or its gradient as CANN's contexts hold it.
#pragma once

#include "ascendc/attention/op_host/attention_plan.h"
#include "ascendc/common/op_host/described_call.h"

namespace nsa::ascend {

// Data types of the combinations that there are: a bias tensor is of the query's type and slopes
// are float; a mask is bool or uint8.
inline const Dtypes kFlashFloats{ge::DT_FLOAT16, ge::DT_FLOAT16, ge::DT_FLOAT16, ge::DT_FLOAT16,
                                 ge::DT_BF16,    ge::DT_BF16,    ge::DT_BF16,    ge::DT_BF16,
                                 ge::DT_FLOAT,   ge::DT_FLOAT};
inline const Dtypes kFlashBias{ge::DT_FLOAT16, ge::DT_FLOAT16, ge::DT_FLOAT, ge::DT_FLOAT,
                               ge::DT_BF16,    ge::DT_BF16,    ge::DT_FLOAT, ge::DT_FLOAT,
                               ge::DT_FLOAT,   ge::DT_FLOAT};
inline const Dtypes kFlashMask{ge::DT_BOOL, ge::DT_UINT8, ge::DT_BOOL, ge::DT_UINT8,
                               ge::DT_BOOL, ge::DT_UINT8, ge::DT_BOOL, ge::DT_UINT8,
                               ge::DT_BOOL, ge::DT_UINT8};

// `in`: where the inputs of the operator or its gradient are in its schema.
FlashCall flash_call(const DescribedCall& call, const char* op, const FlashInputs& in);

}  // namespace nsa::ascend
