// Operators by type that put tensors together along a dimension, or take one apart.
#include <algorithm>

#include "twin/cann/opapi/aclop.h"
#include "twin/cann/opapi/folded.h"
#include "twin/cann/opapi/plan.h"

namespace twin::cann {

namespace {

// Between a tensor and its parts along an axis, which is dropped in the parts or not.
Tensors Join(const Tensors& in, size_t axis, const Dims& whole) {
  Values result(whole);
  const int64_t outer = Product(whole, 0, axis);
  const int64_t row = outer == 0 ? 0 : Product(whole) / outer;
  int64_t begin = 0;
  for (const Values& part : in) {
    const int64_t count = outer == 0 ? 0 : part.size() / outer;
    for (int64_t i = 0; i < outer; ++i) {
      std::copy_n(part.data.begin() + i * count, count, result.data.begin() + i * row + begin);
    }
    begin += count;
  }
  return {result};
}

Tensors Divide(const Values& x, size_t axis, const Inputs& out) {
  Tensors parts;
  const int64_t outer = Product(x.dims, 0, axis);
  const int64_t row = outer == 0 ? 0 : x.size() / outer;
  int64_t begin = 0;
  for (const Described& each : out) {
    Values part(each.dims);
    const int64_t count = outer == 0 ? 0 : part.size() / outer;
    for (int64_t i = 0; i < outer; ++i) {
      std::copy_n(x.data.begin() + i * row + begin, count, part.data.begin() + i * count);
    }
    begin += count;
    parts.push_back(part);
  }
  return parts;
}

void RequireCount(const char* attribute, int64_t given, size_t count) {
  if (given == static_cast<int64_t>(count)) return;
  Refuse("attribute " + std::string(attribute) + " must be " + std::to_string(count) +
         ", the number of tensors, got " + std::to_string(given));
}

OperatorType Pack() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    RequireCount("N", attrs.Integer("N"), in.size());
    Dims dims = in[0].dims;
    for (size_t i = 1; i < in.size(); ++i) {
      RequireAlike(in, i, 0);
      RequireShape(in, i, dims);
    }
    const size_t axis = AxisOf(attrs.Integer("axis"), dims.size() + 1);
    dims.insert(dims.begin() + static_cast<int64_t>(axis), static_cast<int64_t>(in.size()));
    return Inputs{{in[0].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) {
    return Join(in, AxisOf(attrs.Integer("axis"), out[0].dims.size()), out[0].dims);
  };
  return {1, kAnyNumber, {{"axis", int64_t{0}}, {"N", int64_t{1}}}, infer, loop};
}

OperatorType Unpack() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t outputs) {
    RequireCount("num", attrs.Integer("num"), outputs);
    if (in[0].dims.empty()) Refuse("input 0 must have a dimension");
    const size_t axis = AxisOf(attrs.Integer("axis"), in[0].dims.size());
    RequireCount("num", attrs.Integer("num"), static_cast<size_t>(in[0].dims[axis]));
    Dims dims = in[0].dims;
    dims.erase(dims.begin() + static_cast<int64_t>(axis));
    return Inputs(outputs, {in[0].dtype, dims});
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) {
    return Divide(in[0], AxisOf(attrs.Integer("axis"), in[0].dims.size()), out);
  };
  return {1, 1, {{"num", {}}, {"axis", int64_t{0}}}, infer, loop};
}

OperatorType Concatenate() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    if (attrs.Has("N")) RequireCount("N", attrs.Integer("N"), in.size());
    Dims dims = in[0].dims;
    if (dims.empty()) Refuse("input 0 must have a dimension");
    const size_t axis = AxisOf(attrs.Integer("concat_dim"), dims.size());
    for (size_t i = 1; i < in.size(); ++i) {
      RequireAlike(in, i, 0);
      Dims expected = in[0].dims;
      if (in[i].dims.size() == dims.size()) expected[axis] = in[i].dims[axis];
      RequireShape(in, i, expected);
      dims[axis] += in[i].dims[axis];
    }
    return Inputs{{in[0].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) {
    return Join(in, AxisOf(attrs.Integer("concat_dim"), out[0].dims.size()), out[0].dims);
  };
  return {1, kAnyNumber, {{"concat_dim", {}}, {"N", {}}}, infer, loop};
}

// Equal parts.
Inputs Parts(const Described& whole, int64_t dim, int64_t count, size_t outputs) {
  RequireCount("num_split", count, outputs);
  if (whole.dims.empty()) Refuse("there is no dimension to be split");
  const size_t axis = AxisOf(dim, whole.dims.size());
  Dims dims = whole.dims;
  if (count < 1 || dims[axis] % count != 0) {
    Refuse("a dimension of size " + std::to_string(dims[axis]) + " has no " +
           std::to_string(count) + " equal parts");
  }
  dims[axis] /= count;
  return Inputs(outputs, {whole.dtype, dims});
}

OperatorType Split() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t outputs) {
    return Parts(in[1], KnownOne(in, 0), attrs.Integer("num_split"), outputs);
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) {
    return Divide(in[1], AxisOf(static_cast<int64_t>(in[0].data[0]), in[1].dims.size()), out);
  };
  return {2, 2, {{"num_split", {}}}, infer, loop};
}

OperatorType SplitAlong() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t outputs) {
    return Parts(in[0], attrs.Integer("split_dim"), attrs.Integer("num_split"), outputs);
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) {
    return Divide(in[0], AxisOf(attrs.Integer("split_dim"), in[0].dims.size()), out);
  };
  return {1, 1, {{"split_dim", {}}, {"num_split", {}}}, infer, loop};
}

}  // namespace

void AddParts(OperatorTypes* types) {
  OperatorTypes& all = *types;
  all["Pack"] = Pack();
  all["Unpack"] = Unpack();
  all["ConcatD"] = Concatenate();
  all["Split"] = Split();
  all["SplitD"] = SplitAlong();
}

}  // namespace twin::cann
