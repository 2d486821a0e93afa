// Operators that move elements: concatenation, splitting, repetition, another order.
#include <algorithm>

#include "twin/cann/opapi/folded.h"
#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

const std::vector<const aclTensor*>& Tensors(const aclTensorList* list) {
  if (list == nullptr || !twin::Exists(list)) Refuse("a list of tensors is null or does not exist");
  return list->tensors;
}

// Throws unless the dimensions are those of `whole` but for the one of the axis, and gives that.
int64_t PartOf(const Dims& dims, const Dims& whole, size_t axis) {
  bool fits = dims.size() == whole.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = i == axis || dims[i] == whole[i];
  if (!fits) Refuse("a part has another shape than the whole");
  return dims[axis];
}

// The common dtype of a list's tensors, which out has to take.
aclDataType CommonOf(const std::vector<const aclTensor*>& tensors, const aclTensor* out) {
  aclDataType common = tensors.front()->dtype;
  for (const aclTensor* each : tensors) common = Promote(common, each->dtype);
  RequireCast(common, "out", out->dtype);
  return common;
}

void Split(Plan& plan, const aclTensor* self, const Dims& sizes, int64_t dim,
           const aclTensorList* out) {
  plan.In("self", self);
  if (self->dims.empty()) Refuse("self must have a dimension");
  const size_t axis = AxisOf(dim, self->dims.size());
  const auto& parts = Tensors(out);
  if (parts.size() != sizes.size()) {
    Refuse("out must have " + std::to_string(sizes.size()) + " tensors, got " +
           std::to_string(parts.size()));
  }
  int64_t sum = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    plan.Out("out", parts[i]);
    RequireSameDtype("out", parts[i], "self", self);
    if (PartOf(parts[i]->dims, self->dims, axis) != sizes[i]) {
      Refuse("part " + std::to_string(i) + " must have size " + std::to_string(sizes[i]) +
             " along the axis, got " + DescribeTensor(*parts[i]));
    }
    sum += sizes[i];
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

}  // namespace

ACLNN(Cat, const aclTensorList* tensors, int64_t dim, aclTensor* out)
PLAN({
  plan.Out("out", out);
  if (out->dims.empty()) Refuse("out must have a dimension");
  const size_t axis = AxisOf(dim, out->dims.size());
  int64_t sum = 0;
  for (const aclTensor* part : Tensors(tensors)) {
    plan.In("tensors", part);
    sum += PartOf(part->dims, out->dims, axis);
  }
  if (sum != out->dims[axis]) {
    Refuse("out must have size " + std::to_string(sum) + " along the axis, got " +
           DescribeTensor(*out));
  }
  const aclDataType common = CommonOf(Tensors(tensors), out);
  plan.compute = [axis, common](const Arguments& all) {
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
    RoundTo(&result, common);
    Write(result, all.back());
  };
});
ACLNN(Stack, const aclTensorList* tensors, int64_t dim, aclTensor* out)
PLAN({
  plan.Out("out", out);
  if (out->dims.empty()) Refuse("out must have a dimension");
  const size_t axis = AxisOf(dim, out->dims.size());
  Dims part = out->dims;
  part.erase(part.begin() + static_cast<int64_t>(axis));
  for (const aclTensor* each : Tensors(tensors)) {
    plan.In("tensors", each);
    RequireDims("tensors", each, part);
  }
  if (out->dims[axis] != static_cast<int64_t>(plan.inputs.size())) {
    Refuse("out must have size " + std::to_string(plan.inputs.size()) + " along the axis, got " +
           DescribeTensor(*out));
  }
  const aclDataType common = CommonOf(Tensors(tensors), out);
  plan.compute = [axis, common](const Arguments& all) {
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
    RoundTo(&result, common);
    Write(result, all.back());
  };
});
ACLNN(SplitWithSize, const aclTensor* self, const aclIntArray* splitSize, int64_t dim,
      aclTensorList* out)
PLAN({ Split(plan, self, Integers(splitSize), dim, out); });
ACLNN(SplitTensor, const aclTensor* self, uint64_t splitSections, int64_t dim, aclTensorList* out)
PLAN({
  if (self == nullptr || self->dims.empty()) Refuse("self must be there and have a dimension");
  int64_t rest = self->dims[AxisOf(dim, self->dims.size())];
  if ((splitSections == 0) != (rest == 0)) {
    Refuse("splitSections is " + std::to_string(splitSections) + " for a dimension of size " +
           std::to_string(rest));
  }
  Dims sizes;
  const auto most = static_cast<int64_t>(splitSections);
  do {
    sizes.push_back(std::min(most, rest));
    rest -= sizes.back();
  } while (rest > 0);
  Split(plan, self, sizes, dim, out);
});
ACLNN(Repeat, const aclTensor* self, const aclIntArray* repeats, aclTensor* out)
PLAN({
  plan.In("self", self);
  plan.Out("out", out);
  RequireSameDtype("out", out, "self", self);
  const Dims times = Integers(repeats);
  if (times.size() < self->dims.size()) Refuse("fewer repeats than dimensions");
  if (times.size() > 8) Refuse("more than 8 repeats");
  for (int64_t each : times) {
    if (each < 0) Refuse("repeats must not be negative, got " + std::to_string(each));
  }
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
  RequireSameDtype("out", out, "self", self);
  std::vector<size_t> order;
  Dims expected;
  if (Integers(dims).size() != self->dims.size()) {
    Refuse("dims must have " + std::to_string(self->dims.size()) + " entries, got " +
           std::to_string(Integers(dims).size()));
  }
  for (int64_t dim : Integers(dims)) {
    const size_t axis = AxisOf(dim, self->dims.size());
    if (std::find(order.begin(), order.end(), axis) != order.end()) {
      Refuse("dims names dimension " + std::to_string(dim) + " twice");
    }
    order.push_back(axis);
    expected.push_back(self->dims[order.back()]);
  }
  RequireDims("out", out, expected);
  plan.compute = [order](const Arguments& all) { Write(Permute(Read(all[0]), order), all[1]); };
});
// Pairs of how many elements come before and behind a dimension, beginning with the last one;
// negative ones are cut off.
ACLNN(ConstantPadNd, const aclTensor* self, const aclIntArray* pad, const aclScalar* value,
      aclTensor* out)
PLAN({
  plan.In("self", self);
  plan.Out("out", out);
  RequireSameDtype("out", out, "self", self);
  const double filling = Number(value);
  const Dims pairs = Integers(pad);
  const size_t rank = self->dims.size();
  if (pairs.size() % 2 != 0 || pairs.size() > 2 * rank) {
    Refuse("pad must have an even number of at most " + std::to_string(2 * rank) +
           " entries, got " + std::to_string(pairs.size()));
  }
  Dims before(rank);
  Dims expected = self->dims;
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    const size_t axis = rank - 1 - i;
    before[axis] = pairs[2 * i];
    expected[axis] += pairs[2 * i] + pairs[2 * i + 1];
    if (expected[axis] < 0) Refuse("pad cuts off more than there is");
  }
  RequireDims("out", out, expected);
  plan.compute = [before, filling](const Arguments& all) {
    const Values x = Read(all[0]);
    Values result(all[1].tensor.dims, filling);
    const Dims own = StridesOf(x.dims);
    const Dims steps = StridesOf(result.dims);
    for (int64_t at = 0; at < result.size(); ++at) {
      int64_t from = 0;
      bool inside = true;
      for (size_t i = 0; i < before.size(); ++i) {
        const int64_t place = at / steps[i] % result.dims[i] - before[i];
        inside = inside && place >= 0 && place < x.dims[i];
        from += place * own[i];
      }
      if (inside) result.data[at] = x.data[from];
    }
    Write(result, all[1]);
  };
});
