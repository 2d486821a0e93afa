// Operators that choose elements by a mask, by their place or by a number.
#include <string>

#include "twin/cann/opapi/folded.h"
#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

constexpr Dtypes kFillable = kFloats | kIndices | kBool | Only(ACL_INT8);

void CheckFill(Plan& plan, const aclTensor* self, const aclTensor* mask) {
  plan.InOut("selfRef", self, kFillable);
  plan.In("mask", mask, kBool);
  if (BroadcastDims(mask->dims, self->dims) != self->dims) {
    Refuse("mask cannot be broadcast to selfRef: " + DescribeTensor(*mask));
  }
}

void Fill(const Arguments& all, double value) {
  Values x = Read(all[0]);
  const Values chosen = Broadcast(Read(all[1]), x.dims);
  for (size_t i = 0; i < x.data.size(); ++i) {
    if (chosen.data[i] != 0) x.data[i] = value;
  }
  Write(x, all.back());
}

// Keeps what lies on one side of a diagonal of the last two dimensions.
void Triangle(Plan& plan, const aclTensor* self, int64_t diagonal, const aclTensor* out,
              bool upper) {
  plan.In("self", self);
  plan.Out("out", out);
  if (self->dims.size() == 1) Refuse("self must have 0 or 2 to 8 dimensions");
  RequireDims("out", out, self->dims);
  RequireSameDtype("out", out, "self", self);
  plan.compute = [diagonal, upper](const Arguments& all) {
    Values x = Read(all[0]);
    const int64_t columns = x.dims.empty() ? 1 : x.dims.back();
    const int64_t rows = x.dims.empty() ? 1 : x.dims[x.dims.size() - 2];
    for (int64_t at = 0; at < x.size(); ++at) {
      const int64_t place = at % columns - at / columns % rows;
      if (upper ? place < diagonal : place > diagonal) x.data[at] = 0;
    }
    Write(x, all[1]);
  };
}

}  // namespace

ACLNN(InplaceMaskedFillScalar, aclTensor* selfRef, const aclTensor* mask, const aclScalar* value)
PLAN({
  CheckFill(plan, selfRef, mask);
  const double number = Number(value);
  RequireCast(value->dtype == ACL_DOUBLE ? ACL_FLOAT : value->dtype, "selfRef", selfRef->dtype);
  plan.compute = [number](const Arguments& all) { Fill(all, number); };
});
ACLNN(InplaceMaskedFillTensor, aclTensor* selfRef, const aclTensor* mask, const aclTensor* value)
PLAN({
  CheckFill(plan, selfRef, mask);
  plan.In("value", value, kFillable);
  RequireDims("value", value, {});
  RequireCast(value->dtype, "selfRef", selfRef->dtype);
  plan.compute = [](const Arguments& all) { Fill(all, Read(all[2]).data[0]); };
});
ACLNN(Triu, const aclTensor* self, int64_t diagonal, aclTensor* out)
PLAN({ Triangle(plan, self, diagonal, out, true); });
ACLNN(Tril, const aclTensor* self, int64_t diagonal, aclTensor* out)
PLAN({ Triangle(plan, self, diagonal, out, false); });
ACLNN(OneHot, const aclTensor* self, int numClasses, const aclTensor* onValue,
      const aclTensor* offValue, int64_t axis, aclTensor* out)
PLAN({
  constexpr Dtypes kMarks = Only(ACL_FLOAT16) | Only(ACL_FLOAT) | kIndices;
  plan.In("self", self, kIndices);  // uint8 is not on an Atlas A2
  plan.In("onValue", onValue, kMarks);
  plan.In("offValue", offValue, kMarks);
  plan.Out("out", out, kMarks);
  RequireSameDtype("onValue", onValue, "out", out);
  RequireSameDtype("offValue", offValue, "out", out);
  const auto rank = static_cast<int64_t>(self->dims.size());
  if (axis < -1 || axis > rank) {
    Refuse("axis must be from -1 to " + std::to_string(rank) + ", got " + std::to_string(axis));
  }
  if (numClasses < (Product(self->dims) == 0 ? 1 : 0)) {
    Refuse("numClasses is " + std::to_string(numClasses));
  }
  Dims expected = self->dims;
  const int64_t place = axis == -1 ? rank : axis;
  expected.insert(expected.begin() + place, numClasses);
  RequireDims("out", out, expected);
  plan.compute = [place](const Arguments& all) {
    const Values numbers = Read(all[0]);
    const double on = Read(all[1]).data.at(0), off = Read(all[2]).data.at(0);
    Values marks(all[3].tensor.dims, off);
    const Folded whole = Fold(marks.dims, static_cast<size_t>(place));
    for (int64_t at = 0; at < numbers.size(); ++at) {
      const auto number = static_cast<int64_t>(numbers.data[at]);
      if (number < 0 || number >= whole.axis) continue;
      const int64_t outer = at / whole.inner, inner = at % whole.inner;
      marks.data[(outer * whole.axis + number) * whole.inner + inner] = on;
    }
    Write(marks, all[3]);
  };
});
