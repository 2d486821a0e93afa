// Operators by type that move elements: another order or shape, repetition, slices, rows by index.
#include <algorithm>
#include <cmath>

#include "twin/cann/opapi/aclop.h"
#include "twin/cann/opapi/folded.h"
#include "twin/cann/opapi/plan.h"

namespace twin::cann {

namespace {

// A range of one dimension; `alone`: one element, whose dimension is dropped.
struct Range {
  int64_t begin, step, count;
  bool alone;
};

const std::vector<Attribute> kMasks = {{"begin_mask", int64_t{0}},
                                       {"end_mask", int64_t{0}},
                                       {"ellipsis_mask", int64_t{0}},
                                       {"new_axis_mask", int64_t{0}},
                                       {"shrink_axis_mask", int64_t{0}}};

std::vector<Range> Ranges(const Dims& dims, const Dims& begin, const Dims& end, const Dims& strides,
                          const Attributes& attrs) {
  if (attrs.Integer("ellipsis_mask") != 0 || attrs.Integer("new_axis_mask") != 0) {
    Refuse("ellipsis_mask or new_axis_mask, which the twin does not have");
  }
  if (begin.size() != end.size() || begin.size() != strides.size() || begin.size() > dims.size()) {
    Refuse("begin, end and strides must have one size of at most " + std::to_string(dims.size()));
  }
  const auto bit = [&](const char* mask, size_t i) {
    return ((attrs.Integer(mask) >> i) & 1) != 0;
  };
  std::vector<Range> ranges;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t size = dims[i];
    if (i >= begin.size()) {
      ranges.push_back({0, 1, size, false});
      continue;
    }
    const int64_t step = strides[i];
    if (step == 0) Refuse("strides must not be 0");
    const auto place = [&](int64_t value) {
      const int64_t at = value + (value < 0 ? size : 0);
      return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
    };
    const bool alone = bit("shrink_axis_mask", i);
    if (alone && (begin[i] < -size || begin[i] >= size)) {
      Refuse("begin " + std::to_string(begin[i]) + " is outside of dimension " + std::to_string(i));
    }
    int64_t first = place(begin[i]), last = place(end[i]);
    if (!alone && bit("begin_mask", i)) first = step > 0 ? 0 : size - 1;
    if (!alone && bit("end_mask", i)) last = step > 0 ? size : -1;
    const int64_t length = step > 0 ? last - first : first - last;
    const int64_t pace = std::abs(step);
    const int64_t count = alone ? 1 : std::max<int64_t>(0, (length + pace - 1) / pace);
    ranges.push_back({first, step, count, alone});
  }
  return ranges;
}

Dims Kept(const std::vector<Range>& ranges) {
  Dims dims;
  for (const Range& range : ranges) {
    if (!range.alone) dims.push_back(range.count);
  }
  return dims;
}

// Calls visit(place in the whole, place in the part) for every element of the part.
template <class Visit>
void ForEachOfPart(const Dims& dims, const std::vector<Range>& ranges, Visit visit) {
  Dims part;
  for (const Range& range : ranges) part.push_back(range.count);
  const Dims own = StridesOf(dims);
  const Dims steps = StridesOf(part);
  for (int64_t at = 0; at < Product(part); ++at) {
    int64_t from = 0;
    for (size_t i = 0; i < part.size(); ++i) {
      from += (ranges[i].begin + at / steps[i] % part[i] * ranges[i].step) * own[i];
    }
    visit(from, at);
  }
}

Dims Integers(const Values& values) { return Dims(values.data.begin(), values.data.end()); }

OperatorType Slice() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    const auto ranges = Ranges(in[0].dims, Known(in, 1), Known(in, 2), Known(in, 3), attrs);
    return Inputs{{in[0].dtype, Kept(ranges)}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) -> Tensors {
    Values result(out[0].dims);
    const auto ranges =
        Ranges(in[0].dims, Integers(in[1]), Integers(in[2]), Integers(in[3]), attrs);
    ForEachOfPart(in[0].dims, ranges,
                  [&](int64_t from, int64_t to) { result.data.at(to) = in[0].data.at(from); });
    return {result};
  };
  return {4, 4, kMasks, infer, loop};
}

OperatorType SliceGradient() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    const Dims dims = Known(in, 0);
    RequireShape(in, 4, Kept(Ranges(dims, Known(in, 1), Known(in, 2), Known(in, 3), attrs)));
    return Inputs{{in[4].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) -> Tensors {
    Values result(out[0].dims);
    const auto ranges =
        Ranges(result.dims, Integers(in[1]), Integers(in[2]), Integers(in[3]), attrs);
    ForEachOfPart(result.dims, ranges,
                  [&](int64_t to, int64_t from) { result.data.at(to) = in[4].data.at(from); });
    return {result};
  };
  return {5, 5, kMasks, infer, loop};
}

OperatorType Gather() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    Require(in, 1, kIndices);
    if (attrs.Integer("batch_dims") != 0) Refuse("batch_dims, which the twin does not have");
    const size_t axis = AxisOf(KnownOne(in, 2), in[0].dims.size());
    Dims dims = in[0].dims;
    dims.erase(dims.begin() + static_cast<int64_t>(axis));
    dims.insert(dims.begin() + static_cast<int64_t>(axis), in[1].dims.begin(), in[1].dims.end());
    return Inputs{{in[0].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    const Values &x = in[0], &places = in[1];
    const Folded whole = Fold(x.dims, AxisOf(Integers(in[2]).front(), x.dims.size()));
    Values result(out[0].dims);
    for (int64_t row = 0; row < whole.outer; ++row) {
      for (int64_t i = 0; i < places.size(); ++i) {
        const auto place = static_cast<int64_t>(places.data[i]);
        if (place < 0 || place >= whole.axis) Refuse("an index is out of range");
        std::copy_n(x.data.begin() + (row * whole.axis + place) * whole.inner, whole.inner,
                    result.data.begin() + (row * places.size() + i) * whole.inner);
      }
    }
    return {result};
  };
  const std::vector<Attribute> attributes = {{"batch_dims", int64_t{0}},
                                             {"negative_index_support", int64_t{0}}};
  return {3, 3, attributes, infer, loop};
}

OperatorType Transpose() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    Dims dims, sorted;
    for (int64_t axis : Known(in, 1)) {
      sorted.push_back(static_cast<int64_t>(AxisOf(axis, in[0].dims.size())));
      dims.push_back(in[0].dims[sorted.back()]);
    }
    std::sort(sorted.begin(), sorted.end());
    if (sorted.size() != in[0].dims.size() ||
        std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      Refuse("perm must name each dimension once");
    }
    return Inputs{{in[0].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs&) -> Tensors {
    std::vector<size_t> order;
    for (int64_t axis : Integers(in[1])) order.push_back(AxisOf(axis, in[0].dims.size()));
    return {Permute(in[0], order)};
  };
  return {2, 2, {}, infer, loop};
}

OperatorType Tile() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    const Dims times = Known(in, 1);
    if (times.size() < in[0].dims.size()) Refuse("fewer multiples than dimensions");
    Dims dims(times.size() - in[0].dims.size(), 1);
    dims.insert(dims.end(), in[0].dims.begin(), in[0].dims.end());
    for (size_t i = 0; i < dims.size(); ++i) {
      if (times[i] < 0) Refuse("multiples must not be negative");
      dims[i] *= times[i];
    }
    return Inputs{{in[0].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    const Values& x = in[0];
    Dims dims(out[0].dims.size() - x.dims.size(), 1);
    dims.insert(dims.end(), x.dims.begin(), x.dims.end());
    Values result(out[0].dims);
    const Dims own = StridesOf(dims), steps = StridesOf(result.dims);
    for (int64_t at = 0; at < result.size(); ++at) {
      int64_t from = 0;
      for (size_t i = 0; i < dims.size(); ++i) {
        from += at / steps[i] % result.dims[i] % dims[i] * own[i];
      }
      result.data[at] = x.data[from];
    }
    return {result};
  };
  return {2, 2, {}, infer, loop};
}

// The second input is a shape, in which BroadcastTo takes -1 for the input's size.
OperatorType BroadcastTo() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    Dims dims = Known(in, 1);
    const size_t own = in[0].dims.size();
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == -1 && i + own >= dims.size()) dims[i] = in[0].dims[i + own - dims.size()];
      if (dims[i] < 0) Refuse("a shape must not be negative");
    }
    if (BroadcastDims(in[0].dims, dims) != dims) Refuse("input 0 cannot be broadcast to the shape");
    return Inputs{{in[0].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    return {Broadcast(in[0], out[0].dims)};
  };
  return {2, 2, {}, infer, loop};
}

OperatorType Reshape() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    if (attrs.Integer("axis") != 0 || attrs.Integer("num_axes") != -1) {
      Refuse("axis or num_axes, which the twin does not have");
    }
    Dims dims = Known(in, 1);
    const auto open = std::find(dims.begin(), dims.end(), -1);
    if (open != dims.end()) {
      *open = 1;
      const int64_t rest = Product(dims);
      *open = rest == 0 ? 0 : Product(in[0].dims) / rest;
    }
    if (std::any_of(dims.begin(), dims.end(), [](int64_t size) { return size < 0; }) ||
        Product(dims) != Product(in[0].dims)) {
      Refuse("the shape has another number of elements than " + Text(in[0]));
    }
    return Inputs{{in[0].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    Values x = in[0];
    x.dims = out[0].dims;
    return {x};
  };
  return {2, 2, {{"axis", int64_t{0}}, {"num_axes", int64_t{-1}}}, infer, loop};
}

}  // namespace

void AddMovements(OperatorTypes* types) {
  OperatorTypes& all = *types;
  all["StridedSlice"] = Slice();
  all["StridedSliceGrad"] = SliceGradient();
  all["GatherV2"] = Gather();
  all["Transpose"] = Transpose();
  all["Tile"] = Tile();
  all["BroadcastTo"] = BroadcastTo();
  all["Reshape"] = Reshape();
}

}  // namespace twin::cann
