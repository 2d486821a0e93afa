// Operators that select elements by index, and their gradient.
#include <algorithm>

#include "twin/cann/opapi/folded.h"
#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

void Select(Plan& plan, const aclTensor* self, int64_t dim, const aclTensor* index,
            const aclTensor* out) {
  plan.In("self", self);
  plan.In("index", index, kIndices);
  plan.Out("out", out);
  RequireSameDtype("out", out, "self", self);
  const size_t axis = AxisOf(dim, self->dims.size());
  Dims expected(self->dims.begin(), self->dims.begin() + static_cast<int64_t>(axis));
  expected.insert(expected.end(), index->dims.begin(), index->dims.end());
  expected.insert(expected.end(), self->dims.begin() + static_cast<int64_t>(axis) + 1,
                  self->dims.end());
  RequireDims("out", out, expected);
  plan.compute = [axis](const Arguments& all) {
    const Values x = Read(all[0]);
    const Values places = Read(all[1]);
    const Folded whole = Fold(x.dims, axis);
    Values result(all[2].tensor.dims);
    for (int64_t row = 0; row < whole.outer; ++row) {
      for (int64_t i = 0; i < places.size(); ++i) {
        const int64_t from = row * whole.axis + CheckedIndex(places.data[i], whole.axis);
        std::copy_n(x.data.begin() + from * whole.inner, whole.inner,
                    result.data.begin() + (row * places.size() + i) * whole.inner);
      }
    }
    Write(result, all[2]);
  };
}

}  // namespace

ACLNN(IndexSelect, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out)
PLAN({
  if (index != nullptr && index->dims.size() > 1) {
    Refuse("index must have one dimension, got " + DescribeTensor(*index));
  }
  Select(plan, self, dim, index, out);
});
ACLNN(GatherV2, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out)
PLAN({ Select(plan, self, dim, index, out); });
ACLNN(Embedding, const aclTensor* weight, const aclTensor* indices, aclTensor* out)
PLAN({
  if (weight != nullptr && weight->dims.size() != 2) {
    Refuse("weight must have two dimensions, got " + DescribeTensor(*weight));
  }
  Select(plan, weight, 0, indices, out);
});
ACLNN(EmbeddingDenseBackward, const aclTensor* grad, const aclTensor* indices, uint64_t numWeights,
      uint64_t paddingIdx, bool scaleGradByFreq, aclTensor* out)
PLAN({
  plan.In("grad", grad, kFloats);
  plan.In("indices", indices);
  plan.Out("out", out, kFloats);
  RequireSameDtype("out", out, "grad", grad);
  if (grad->dims.empty()) Refuse("grad must have a dimension");
  const int64_t width = grad->dims.back();
  Dims expected = indices->dims;
  expected.push_back(width);
  RequireDims("grad", grad, expected);
  RequireDims("out", out, {static_cast<int64_t>(numWeights), width});
  plan.compute = [width, paddingIdx, scaleGradByFreq](const Arguments& all) {
    const Values d = Read(all[0]);
    const Values places = Read(all[1]);
    Values result(all[2].tensor.dims);
    std::vector<double> counts(static_cast<size_t>(result.dims[0]));
    for (int64_t i = 0; i < places.size(); ++i) {
      const int64_t row = CheckedIndex(places.data[i], result.dims[0]);
      if (static_cast<uint64_t>(row) == paddingIdx) continue;
      ++counts[row];
      for (int64_t j = 0; j < width; ++j) {
        double& sum = result.data[row * width + j];
        sum = InSingle(sum + d.data[i * width + j]);
      }
    }
    for (int64_t at = 0; scaleGradByFreq && at < result.size(); ++at) {
      if (counts[at / width] > 0) result.data[at] = InSingle(result.data[at] / counts[at / width]);
    }
    Write(result, all[2]);
  };
});
ACLNN(Gather, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out)
PLAN({
  plan.In("self", self);
  plan.In("index", index, kIndices);
  plan.Out("out", out);
  RequireSameDtype("out", out, "self", self);
  RequireDims("out", out, index->dims);
  const size_t axis = AxisOf(dim, self->dims.size());
  bool fits = index->dims.size() == self->dims.size();
  for (size_t i = 0; fits && i < self->dims.size(); ++i) {
    fits = i == axis || index->dims[i] <= self->dims[i];
  }
  if (!fits) {
    Refuse("index must lie within " + DescribeTensor(*self) + " in the other dimensions, got " +
           DescribeTensor(*index));
  }
  plan.compute = [axis](const Arguments& all) {
    const Values x = Read(all[0]);
    Values places = Read(all[1]);
    const Dims own = StridesOf(x.dims);
    const Dims steps = StridesOf(places.dims);
    for (int64_t at = 0; at < places.size(); ++at) {
      int64_t from = 0;
      for (size_t i = 0; i < x.dims.size(); ++i) {
        const int64_t place =
            i == axis ? CheckedIndex(places.data[at], x.dims[i]) : at / steps[i] % places.dims[i];
        from += place * own[i];
      }
      places.data[at] = x.data[from];
    }
    Write(places, all[2]);
  };
});
// The gradient of Gather, and other sums of elements by their places.
ACLNN(ScatterAdd, const aclTensor* self, int64_t dim, const aclTensor* index, const aclTensor* src,
      aclTensor* out)
PLAN({
  plan.In("self", self);
  plan.In("index", index, kIndices);
  plan.In("src", src);
  plan.Out("out", out);
  RequireSameDtype("src", src, "self", self);
  RequireSameDtype("out", out, "self", self);
  RequireDims("out", out, self->dims);
  const size_t axis = AxisOf(dim, self->dims.size());
  bool fits = index->dims.size() == self->dims.size() && src->dims.size() == self->dims.size();
  for (size_t i = 0; fits && i < self->dims.size(); ++i) {
    fits = index->dims[i] <= src->dims[i] && (i == axis || index->dims[i] <= self->dims[i]);
  }
  if (!fits) {
    Refuse("index must lie within src, and within self in the other dimensions, got " +
           DescribeTensor(*index));
  }
  const bool floats = Has(kFloats, self->dtype);
  plan.compute = [axis, floats](const Arguments& all) {
    Values sum = Read(all[0]);
    const Values places = Read(all[1]), given = Read(all[2]);
    const Dims own = StridesOf(sum.dims), from = StridesOf(given.dims);
    const Dims steps = StridesOf(places.dims);
    for (int64_t at = 0; at < places.size(); ++at) {
      int64_t to = 0, source = 0;
      for (size_t i = 0; i < sum.dims.size(); ++i) {
        const int64_t place = at / steps[i] % places.dims[i];
        source += place * from[i];
        to += (i == axis ? CheckedIndex(places.data[at], sum.dims[i]) : place) * own[i];
      }
      const double value = sum.data[to] + given.data[source];
      sum.data[to] = floats ? InSingle(value) : value;
    }
    Write(sum, all[3]);
  };
});

// Where values would be inserted into ascending ones, which are of one dimension.
ACLNN(SearchSorted, const aclTensor* sortedSequence, const aclTensor* self, bool outInt32,
      bool right, const aclTensor* sorter, aclTensor* out)
PLAN({
  constexpr Dtypes kSorted = kIntegers | Only(ACL_FLOAT) | Only(ACL_FLOAT16);
  plan.In("sortedSequence", sortedSequence, kSorted);
  plan.In("self", self, kSorted);
  plan.Out("out", out, Only(outInt32 ? ACL_INT32 : ACL_INT64));
  if (sorter != nullptr || sortedSequence->dims.size() != 1) Refuse("sorter, or several sequences");
  RequireDims("out", out, self->dims);
  plan.compute = [right](const Arguments& all) {
    const Values sorted = Read(all[0]);
    Values x = Read(all[1]);
    const auto begin = sorted.data.begin(), end = sorted.data.end();
    for (double& value : x.data) {
      const auto found =
          right ? std::upper_bound(begin, end, value) : std::lower_bound(begin, end, value);
      value = static_cast<double>(found - begin);
    }
    Write(x, all[2]);
  };
});
