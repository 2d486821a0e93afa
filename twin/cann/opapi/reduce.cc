// Operators that reduce along dimensions.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "twin/cann/opapi/plan.h"
#include "twin/cann/opapi/rows.h"

namespace twin::cann {

double SumOf(const double* values, int64_t count) {
  constexpr int64_t kLanes = 64;
  double lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i % kLanes] = InSingle(lanes[i % kLanes] + values[i]);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] = InSingle(lanes[i] + lanes[i + half]);
  }
  return lanes[0];
}

}  // namespace twin::cann

using namespace twin::cann;

namespace {

// Which dimensions are reduced; none named: all.
std::vector<bool> Reduced(const Dims& axes, size_t rank) {
  std::vector<bool> reduced(std::max<size_t>(rank, 1), axes.empty());
  for (int64_t axis : axes) {
    const size_t place = AxisOf(axis, rank);
    if (reduced[place]) Refuse("dims names dimension " + std::to_string(axis) + " twice");
    reduced[place] = true;
  }
  reduced.resize(rank);
  return reduced;
}

// Gives the result of the numbers that one element of the output is made of.
using Fold = std::function<double(const std::vector<double>&)>;

// The shape without the reduced dimensions, or with ones for them.
Dims Kept(const Dims& dims, const std::vector<bool>& reduced, bool ones) {
  Dims kept;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!reduced[i] || ones) kept.push_back(reduced[i] ? 1 : dims[i]);
  }
  return kept;
}

Values Reduce(const Values& x, const std::vector<bool>& reduced, const Dims& out,
              const Fold& fold) {
  const Dims kept = Kept(x.dims, reduced, true);
  const Dims own = StridesOf(x.dims);
  const Dims steps = StridesOf(kept);
  Values result(out);
  std::vector<std::vector<double>> parts(result.data.size());
  for (int64_t at = 0; at < x.size(); ++at) {
    int64_t to = 0;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (!reduced[i]) to += at / own[i] % x.dims[i] * steps[i];
    }
    parts[to].push_back(x.data[at]);
  }
  std::transform(parts.begin(), parts.end(), result.data.begin(), fold);
  return result;
}

struct Reduction {
  Dtypes inputs, outputs;
  Fold fold;
  bool same_dtype = false;  // of self and out
  bool has_empty = true;    // whether there is a result of no elements
};

// `computed` is the dtype that self is cast to first.
void ReduceAlong(Plan& plan, const Reduction& kind, const aclTensor* self, const Dims& axes,
                 bool keep, const aclTensor* out, aclDataType computed) {
  plan.In("self", self, kind.inputs);
  plan.Out("out", out, kind.outputs);
  if (kind.same_dtype) RequireSameDtype("out", out, "self", self);
  const std::vector<bool> reduced = Reduced(axes, self->dims.size());
  for (size_t i = 0; i < reduced.size() && !kind.has_empty; ++i) {
    if (reduced[i] && self->dims[i] == 0) Refuse("a reduced dimension has size 0");
  }
  RequireDims("out", out, Kept(self->dims, reduced, keep));
  plan.compute = [=, fold = kind.fold](const Arguments& all) {
    Values x = Read(all[0]);
    if (all[0].tensor.dtype != computed) RoundTo(&x, computed);
    Write(Reduce(x, reduced, all[1].tensor.dims, fold), all[1]);
  };
}

double SumOfAll(const std::vector<double>& values) {
  return SumOf(values.data(), static_cast<int64_t>(values.size()));
}
double ExactSum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
double MeanOf(const std::vector<double>& values) {
  return InSingle(SumOfAll(values) / static_cast<double>(values.size()));
}
double LargestOf(const std::vector<double>& values) {
  double most = -INFINITY;
  for (double value : values) most = value > most || value != value ? value : most;
  return most;
}
double SmallestOf(const std::vector<double>& values) {
  double least = INFINITY;
  for (double value : values) least = value < least || value != value ? value : least;
  return least;
}
double AllOf(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return x != 0; });
}
double AnyOf(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double x) { return x != 0; });
}

const Reduction kLargest = {kAll, kAll, LargestOf, true, false};
const Reduction kSmallest = {kAll, kAll, SmallestOf, true, false};
constexpr Dtypes kFlags = kBool | Only(ACL_UINT8);

aclDataType TypeOf(const aclTensor* self) {
  return self == nullptr ? ACL_DT_UNDEFINED : self->dtype;
}

void RequireStated(aclDataType dtype, const aclTensor* out) {
  if (out == nullptr || out->dtype == dtype) return;
  Refuse("out must be of the dtype " + NameOf(dtype) + ", got " + NameOf(out->dtype));
}

// The shape without a dimension, or with a one for it.
Dims WithoutAxis(Dims dims, size_t axis, bool keep) {
  if (dims.empty()) return dims;
  if (dims[axis] == 0) Refuse("a reduced dimension has size 0");
  if (keep) dims[axis] = 1;
  if (!keep) dims.erase(dims.begin() + static_cast<int64_t>(axis));
  return dims;
}

// Where the first of the largest values of each row is.
Values LargestPlaces(const Values& x, size_t axis, const Dims& out) {
  Values places(out);
  size_t next = 0;
  ForEachRow(x.dims, axis, [&](int64_t first, int64_t step, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; ++i) {
      if (x.data[first + i * step] > x.data[first + best * step]) best = i;
    }
    places.data[next++] = static_cast<double>(best);
  });
  return places;
}

}  // namespace

ACLNN(ReduceSum, const aclTensor* self, const aclIntArray* dims, bool keepDims, aclDataType dtype,
      aclTensor* out)
PLAN({
  RequireStated(dtype, out);
  const Reduction sum = {kAll, kAll, Has(kFloats, dtype) ? SumOfAll : ExactSum};
  ReduceAlong(plan, sum, self, Integers(dims), keepDims, out, dtype);
});
ACLNN(Mean, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclDataType dtype,
      aclTensor* out)
PLAN({
  RequireStated(dtype, out);
  ReduceAlong(plan, {kNumbers, kFloats, MeanOf}, self, Integers(dim), keepDim, out, dtype);
});
ACLNN(Amax, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out)
PLAN({ ReduceAlong(plan, kLargest, self, Integers(dim), keepDim, out, TypeOf(self)); });
ACLNN(Amin, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out)
PLAN({ ReduceAlong(plan, kSmallest, self, Integers(dim), keepDim, out, TypeOf(self)); });
ACLNN(Max, const aclTensor* self, aclTensor* out)
PLAN({ ReduceAlong(plan, kLargest, self, {}, false, out, TypeOf(self)); });
ACLNN(All, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out)
PLAN({
  ReduceAlong(plan, {kAll, kFlags, AllOf}, self, Integers(dim), keepdim, out, TypeOf(self));
});
ACLNN(Any, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out)
PLAN({
  ReduceAlong(plan, {kAll, kFlags, AnyOf}, self, Integers(dim), keepdim, out, TypeOf(self));
});
// MindSpore has it in a package of its own. A loss scale asks it for one flag of all gradients,
// which it clears first.
ACLNN(AllFinite, const aclTensor* gradient, const aclTensor* out)
PLAN({
  plan.In("gradient", gradient, kFloats);
  plan.InOut("out", out, kBool);
  if (Product(out->dims) != 1) Refuse("out must be one bool, got " + DescribeTensor(*out));
  plan.compute = [](const Arguments& all) {
    Values overflow = Read(all[1]);
    for (const double value : Read(all[0]).data) {
      if (!std::isfinite(value)) overflow.data[0] = 1;
    }
    Write(overflow, all[2]);
  };
});
ACLNN(Cumsum, const aclTensor* self, int64_t dim, aclDataType dtype, aclTensor* out)
PLAN({
  plan.In("self", self, kNumbers);
  plan.Out("out", out, kNumbers);
  RequireStated(dtype, out);
  RequireDims("out", out, self->dims);
  const size_t axis = AxisOf(dim, self->dims.size());
  plan.compute = [axis, dtype](const Arguments& all) {
    Values x = Read(all[0]);
    if (all[0].tensor.dtype != dtype) RoundTo(&x, dtype);
    const bool floats = Has(kFloats, dtype);
    ForEachRow(x.dims, axis, [&](int64_t first, int64_t step, int64_t count) {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) {
        double& value = x.data[first + i * step];
        sum = floats ? InSingle(sum + value) : sum + value;
        value = sum;
      }
    });
    Write(x, all[1]);
  };
});
// The largest values along a dimension, and their places.
ACLNN(MaxDim, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out, aclTensor* indices)
PLAN({
  constexpr Dtypes kCompared = kFloats | kBool | Only(ACL_INT64);  // int32 is not on an Atlas A2
  plan.In("self", self, kCompared);
  plan.Out("out", out, kCompared);
  plan.Out("indices", indices, kIndices);
  RequireSameDtype("out", out, "self", self);
  const size_t axis = AxisOf(dim, self->dims.size());
  const Dims expected = WithoutAxis(self->dims, axis, keepdim);
  RequireDims("out", out, expected);
  RequireDims("indices", indices, expected);
  plan.compute = [axis](const Arguments& all) {
    const Values x = Read(all[0]), places = LargestPlaces(x, axis, all[2].tensor.dims);
    Values most(places.dims);
    size_t next = 0;
    ForEachRow(x.dims, axis, [&](int64_t first, int64_t step, int64_t) {
      most.data[next] = x.data[first + static_cast<int64_t>(places.data[next]) * step];
      ++next;
    });
    Write(most, all[1]);
    Write(places, all[2]);
  };
});
ACLNN(ArgMax, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out)
PLAN({
  plan.In("self", self, kNumbers);
  plan.Out("out", out, kIndices);
  const size_t axis = AxisOf(dim, self->dims.size());
  RequireDims("out", out, WithoutAxis(self->dims, axis, keepdim));
  plan.compute = [axis](const Arguments& all) {
    Write(LargestPlaces(Read(all[0]), axis, all[1].tensor.dims), all[1]);
  };
});
