// Operators that copy, cast, fill and choose elements.
#include <cmath>

#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

void Fill(Plan& plan, const aclTensor* self, double value) {
  plan.Out("selfRef", self);
  plan.compute = [value](const Arguments& all) {
    Write(Values(all[0].tensor.dims, value), all[0]);
  };
}

}  // namespace

ACLNN(Cast, const aclTensor* self, const aclDataType dtype, aclTensor* out)
PLAN({
  plan.In("self", self);
  plan.Out("out", out);
  RequireDims("out", out, self->dims);
  if (out->dtype != dtype) {
    Refuse("out must be of the dtype " + NameOf(dtype) + ", got " + NameOf(out->dtype));
  }
  plan.compute = [](const Arguments& all) {
    if (!CopyBits(all[0], all[1])) Write(Read(all[0]), all[1]);
  };
});
ACLNN(InplaceCopy, aclTensor* selfRef, const aclTensor* src)
PLAN({
  plan.In("src", src);
  plan.Out("selfRef", selfRef);
  if (BroadcastDims(src->dims, selfRef->dims) != selfRef->dims) Refuse("src cannot be broadcast");
  plan.compute = [](const Arguments& all) {
    if (CopyBits(all[0], all[1])) return;
    Write(Broadcast(Read(all[0]), all[1].tensor.dims), all[1]);
  };
});
ACLNN(InplaceOne, aclTensor* selfRef) PLAN({ Fill(plan, selfRef, 1); });
ACLNN(InplaceZero, aclTensor* selfRef) PLAN({ Fill(plan, selfRef, 0); });
ACLNN(InplaceFillScalar, aclTensor* selfRef, const aclScalar* value)
PLAN({ Fill(plan, selfRef, Number(value)); });
ACLNN(Arange, const aclScalar* start, const aclScalar* end, const aclScalar* step, aclTensor* out)
PLAN({
  plan.Out("out", out, kFloats | kIndices);
  const double first = Number(start), pace = Number(step), length = Number(end) - first;
  if (pace == 0) Refuse("step must not be 0");
  if (length != 0 && (length > 0) != (pace > 0)) Refuse("step leads away from end");
  RequireDims("out", out, {static_cast<int64_t>(std::ceil(length / pace))});
  plan.compute = [first, pace, floats = Has(kFloats, out->dtype)](const Arguments& all) {
    Values x(all[0].tensor.dims);
    for (int64_t i = 0; i < x.size(); ++i) {
      const double value = first + static_cast<double>(i) * pace;
      x.data[i] = floats ? InSingle(value) : value;
    }
    Write(x, all[0]);
  };
});
ACLNN(SWhere, const aclTensor* condition, const aclTensor* self, const aclTensor* other,
      aclTensor* out)
PLAN({
  plan.In("condition", condition, kBool | Only(ACL_UINT8));
  plan.In("self", self);
  plan.In("other", other);
  plan.Out("out", out);
  RequireDims("out", out, BroadcastDims(condition->dims, BroadcastDims(self->dims, other->dims)));
  const aclDataType common = Promote(self->dtype, other->dtype);
  RequireCast(common, "out", out->dtype);
  plan.compute = [common](const Arguments& all) {
    const Dims& dims = all[3].tensor.dims;
    const Values c = Broadcast(Read(all[0]), dims);
    Values x = Broadcast(Read(all[1]), dims);
    const Values y = Broadcast(Read(all[2]), dims);
    for (size_t i = 0; i < x.data.size(); ++i) {
      if (c.data[i] == 0) x.data[i] = y.data[i];
    }
    RoundTo(&x, common);
    Write(x, all[3]);
  };
});
