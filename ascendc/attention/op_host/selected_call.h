// A call of NsaSelectedAttention or its gradient as CANN's contexts hold it.
#pragma once

#include "ascendc/attention/op_host/flash_call.h"
#include "ascendc/attention/op_host/selection_plan.h"

namespace nsa::ascend {

// Data types of the combinations that there are, for the two types of a mask.
inline const Dtypes kSelectedFloats{ge::DT_FLOAT16, ge::DT_FLOAT16, ge::DT_BF16, ge::DT_BF16};
inline const Dtypes kSelectedMask{ge::DT_BOOL, ge::DT_UINT8, ge::DT_BOOL, ge::DT_UINT8};

SelectedCall selected_call(const DescribedCall& call);

}  // namespace nsa::ascend
