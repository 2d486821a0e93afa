// Operators that move elements: concatenation, splitting, repetition, selection by index.
#include <algorithm>

#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

const std::vector<const aclTensor*>& Tensors(const aclTensorList* list) {
  if (list == nullptr || !twin::Exists(list)) Refuse("a list of tensors is null or does not exist");
  return list->tensors;
}

// A tensor seen as [outer, axis, inner].
struct Folded {
  int64_t outer, axis, inner;
};

Folded Fold(const Dims& dims, size_t axis) {
  return {Product(dims, 0, axis), dims.empty() ? 1 : dims[axis], Product(dims, axis + 1)};
}

// Throws unless the dimensions are those of `whole` but for the one of the axis, and gives that.
int64_t PartOf(const Dims& dims, const Dims& whole, size_t axis) {
  bool fits = dims.size() == whole.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = i == axis || dims[i] == whole[i];
  if (!fits) Refuse("a part has another shape than the whole");
  return dims[axis];
}

void Split(Plan& plan, const aclTensor* self, int64_t dim, const aclTensorList* out) {
  plan.In("self", self);
  const size_t axis = AxisOf(dim, self->dims.size());
  int64_t sum = 0;
  for (const aclTensor* part : Tensors(out)) {
    plan.Out("out", part);
    sum += PartOf(part->dims, self->dims, axis);
  }
  if (sum != self->dims[axis]) Refuse("the parts do not add up to the whole");
  plan.compute = [axis](const Arguments& all) {
    const Values x = Read(all[0]);
    const Folded whole = Fold(x.dims, axis);
    int64_t begin = 0;
    for (size_t i = 1; i < all.size(); ++i) {
      Values part(all[i].tensor.dims);
      const int64_t count = part.dims[axis] * whole.inner;
      for (int64_t row = 0; row < whole.outer; ++row) {
        std::copy_n(x.data.begin() + row * whole.axis * whole.inner + begin, count,
                    part.data.begin() + row * count);
      }
      Write(part, all[i]);
      begin += count;
    }
  };
}

int64_t Checked(double index, int64_t count) {
  const auto place = static_cast<int64_t>(index < 0 ? index + static_cast<double>(count) : index);
  if (place < 0 || place >= count) Refuse("an index is out of range");
  return place;
}

void Select(Plan& plan, const aclTensor* self, int64_t dim, const aclTensor* index,
            const aclTensor* out) {
  plan.In("self", self);
  plan.In("index", index);
  plan.Out("out", out);
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
        const int64_t from = row * whole.axis + Checked(places.data[i], whole.axis);
        std::copy_n(x.data.begin() + from * whole.inner, whole.inner,
                    result.data.begin() + (row * places.size() + i) * whole.inner);
      }
    }
    Write(result, all[2]);
  };
}

}  // namespace

ACLNN(Cat, const aclTensorList* tensors, int64_t dim, aclTensor* out)
PLAN({
  const size_t axis = AxisOf(dim, out->dims.size());
  int64_t sum = 0;
  for (const aclTensor* part : Tensors(tensors)) {
    plan.In("tensors", part);
    sum += PartOf(part->dims, out->dims, axis);
  }
  if (sum != out->dims[axis]) Refuse("the parts do not add up to the whole");
  plan.Out("out", out);
  plan.compute = [axis](const Arguments& all) {
    Values result(all.back().tensor.dims);
    const Folded whole = Fold(result.dims, axis);
    int64_t begin = 0;
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      const Values part = Read(all[i]);
      const int64_t count = part.dims[axis] * whole.inner;
      for (int64_t row = 0; row < whole.outer; ++row) {
        std::copy_n(part.data.begin() + row * count, count,
                    result.data.begin() + row * whole.axis * whole.inner + begin);
      }
      begin += count;
    }
    Write(result, all.back());
  };
});
ACLNN(Stack, const aclTensorList* tensors, int64_t dim, aclTensor* out)
PLAN({
  const size_t axis = AxisOf(dim, out->dims.size());
  Dims part = out->dims;
  part.erase(part.begin() + static_cast<int64_t>(axis));
  for (const aclTensor* each : Tensors(tensors)) {
    plan.In("tensors", each);
    RequireDims("tensors", each, part);
  }
  if (out->dims[axis] != static_cast<int64_t>(plan.inputs.size())) Refuse("the shape of out");
  plan.Out("out", out);
  plan.compute = [axis](const Arguments& all) {
    Values result(all.back().tensor.dims);
    const Folded whole = Fold(result.dims, axis);
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      const Values part = Read(all[i]);
      for (int64_t row = 0; row < whole.outer; ++row) {
        std::copy_n(
            part.data.begin() + row * whole.inner, whole.inner,
            result.data.begin() + (row * whole.axis + static_cast<int64_t>(i)) * whole.inner);
      }
    }
    Write(result, all.back());
  };
});
ACLNN(SplitWithSize, const aclTensor* self, const aclIntArray*, int64_t dim, aclTensorList* out)
PLAN({ Split(plan, self, dim, out); });
ACLNN(SplitTensor, const aclTensor* self, uint64_t, int64_t dim, aclTensorList* out)
PLAN({ Split(plan, self, dim, out); });
ACLNN(Repeat, const aclTensor* self, const aclIntArray* repeats, aclTensor* out)
PLAN({
  plan.In("self", self);
  plan.Out("out", out);
  const Dims times = Integers(repeats);
  if (times.size() < self->dims.size()) Refuse("fewer repeats than dimensions");
  Dims dims(times.size() - self->dims.size(), 1);
  dims.insert(dims.end(), self->dims.begin(), self->dims.end());
  Dims expected = dims;
  for (size_t i = 0; i < dims.size(); ++i) expected[i] *= times[i];
  RequireDims("out", out, expected);
  plan.compute = [dims](const Arguments& all) {
    const Values x = Read(all[0]);
    Values result(all[1].tensor.dims);
    const Dims own = StridesOf(dims);
    const Dims steps = StridesOf(result.dims);
    for (int64_t at = 0; at < result.size(); ++at) {
      int64_t from = 0;
      for (size_t i = 0; i < dims.size(); ++i) {
        from += at / steps[i] % result.dims[i] % dims[i] * own[i];
      }
      result.data[at] = x.data[from];
    }
    Write(result, all[1]);
  };
});
ACLNN(Permute, const aclTensor* self, const aclIntArray* dims, aclTensor* out)
PLAN({
  plan.In("self", self);
  plan.Out("out", out);
  std::vector<size_t> order;
  Dims expected;
  for (int64_t dim : Integers(dims)) {
    order.push_back(AxisOf(dim, self->dims.size()));
    expected.push_back(self->dims[order.back()]);
  }
  RequireDims("out", out, expected);
  plan.compute = [order](const Arguments& all) { Write(Permute(Read(all[0]), order), all[1]); };
});
ACLNN(IndexSelect, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out)
PLAN({ Select(plan, self, dim, index, out); });
ACLNN(GatherV2, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out)
PLAN({ Select(plan, self, dim, index, out); });
ACLNN(Embedding, const aclTensor* weight, const aclTensor* indices, aclTensor* out)
PLAN({ Select(plan, weight, 0, indices, out); });
ACLNN(EmbeddingDenseBackward, const aclTensor* grad, const aclTensor* indices, uint64_t numWeights,
      uint64_t paddingIdx, bool scaleGradByFreq, aclTensor* out)
PLAN({
  plan.In("grad", grad);
  plan.In("indices", indices);
  plan.Out("out", out);
  if (scaleGradByFreq) Refuse("scaleGradByFreq");
  const int64_t width = grad->dims.empty() ? 1 : grad->dims.back();
  RequireDims("out", out, {static_cast<int64_t>(numWeights), width});
  plan.compute = [width, paddingIdx](const Arguments& all) {
    const Values d = Read(all[0]);
    const Values places = Read(all[1]);
    Values result(all[2].tensor.dims);
    for (int64_t i = 0; i < places.size(); ++i) {
      const int64_t row = Checked(places.data[i], result.dims[0]);
      if (static_cast<uint64_t>(row) == paddingIdx) continue;
      for (int64_t j = 0; j < width; ++j) result.data[row * width + j] += d.data[i * width + j];
    }
    Write(result, all[2]);
  };
});
ACLNN(Gather, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out)
PLAN({
  plan.In("self", self);
  plan.In("index", index);
  plan.Out("out", out);
  RequireDims("out", out, index->dims);
  const size_t axis = AxisOf(dim, self->dims.size());
  plan.compute = [axis](const Arguments& all) {
    const Values x = Read(all[0]);
    Values places = Read(all[1]);
    const Dims own = StridesOf(x.dims);
    const Dims steps = StridesOf(places.dims);
    for (int64_t at = 0; at < places.size(); ++at) {
      int64_t from = 0;
      for (size_t i = 0; i < x.dims.size(); ++i) {
        const int64_t place =
            i == axis ? Checked(places.data[at], x.dims[i]) : at / steps[i] % places.dims[i];
        from += place * own[i];
      }
      places.data[at] = x.data[from];
    }
    Write(places, all[2]);
  };
});

// Where values would be inserted into ascending ones, which are of one dimension.
ACLNN(SearchSorted, const aclTensor* sortedSequence, const aclTensor* self, bool, bool right,
      const aclTensor* sorter, aclTensor* out)
PLAN({
  plan.In("sortedSequence", sortedSequence);
  plan.In("self", self);
  plan.Out("out", out);
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
