// Operators by type that add elements: along axes, running, by row numbers, of several tensors.
#include <algorithm>
#include <cmath>

#include "twin/cann/opapi/aclop.h"
#include "twin/cann/opapi/plan.h"
#include "twin/cann/opapi/rows.h"

namespace twin::cann {

namespace {

std::vector<bool> Reduced(const Dims& axes, size_t rank) {
  std::vector<bool> reduced(rank);
  for (int64_t axis : axes) {
    const size_t place = AxisOf(axis, rank);
    if (rank == 0) continue;
    if (reduced[place]) Refuse("axes names dimension " + std::to_string(axis) + " twice");
    reduced[place] = true;
  }
  return reduced;
}

// Along axes that are an input. CANN's versions differ in what no axes mean, so there have to be
// some.
OperatorType Reduction(bool mean) {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    Require(in, 0, kNumbers);
    const Dims axes = Known(in, 1);
    if (axes.empty() && !in[0].dims.empty()) Refuse("axes must not be empty");
    const std::vector<bool> reduced = Reduced(axes, in[0].dims.size());
    Dims dims;
    for (size_t i = 0; i < reduced.size(); ++i) {
      if (!reduced[i] || attrs.Integer("keep_dims") != 0) {
        dims.push_back(reduced[i] ? 1 : in[0].dims[i]);
      }
    }
    return Inputs{{in[0].dtype, dims}};
  };
  const auto loop = [mean](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    const Values& x = in[0];
    const Dims axes(in[1].data.begin(), in[1].data.end());
    const std::vector<bool> reduced = Reduced(axes, x.dims.size());
    Dims kept = x.dims;
    for (size_t i = 0; i < kept.size(); ++i) kept[i] = reduced[i] ? 1 : kept[i];
    const Dims own = StridesOf(x.dims), steps = StridesOf(kept);
    Values result(out[0].dims);
    std::vector<std::vector<double>> parts(result.data.size());
    for (int64_t at = 0; at < x.size(); ++at) {
      int64_t to = 0;
      for (size_t i = 0; i < kept.size(); ++i) {
        if (!reduced[i]) to += at / own[i] % x.dims[i] * steps[i];
      }
      parts[to].push_back(x.data[at]);
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const double sum = SumOf(parts[i].data(), static_cast<int64_t>(parts[i].size()));
      result.data[i] = mean ? sum / static_cast<double>(parts[i].size()) : sum;
    }
    return {result};
  };
  const std::vector<Attribute> attributes = {{"keep_dims", int64_t{0}},
                                             {"noop_with_empty_axes", int64_t{1}}};
  return {2, 2, attributes, infer, loop};
}

OperatorType RunningSum() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    Require(in, 0, kNumbers);
    Require(in, 1, kIndices);
    AxisOf(KnownOne(in, 1), in[0].dims.size());
    return Inputs{{in[0].dtype, in[0].dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs&) -> Tensors {
    Values x = in[0];
    const bool exclusive = attrs.Integer("exclusive") != 0, back = attrs.Integer("reverse") != 0;
    const size_t axis = AxisOf(static_cast<int64_t>(in[1].data[0]), x.dims.size());
    ForEachRow(x.dims, axis, [&](int64_t first, int64_t step, int64_t count) {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) {
        double& value = x.data[first + (back ? count - 1 - i : i) * step];
        const double before = sum;
        sum = InSingle(sum + value);
        value = exclusive ? before : sum;
      }
    });
    return {x};
  };
  return {2, 2, {{"exclusive", int64_t{0}}, {"reverse", int64_t{0}}}, infer, loop};
}

OperatorType AddN() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    Require(in, 0, kNumbers);
    for (size_t i = 1; i < in.size(); ++i) {
      RequireAlike(in, i, 0);
      RequireShape(in, i, in[0].dims);
    }
    if (attrs.Integer("N") != static_cast<int64_t>(in.size())) {
      Refuse("attribute N must be " + std::to_string(in.size()) + ", the number of tensors, got " +
             std::to_string(attrs.Integer("N")));
    }
    return Inputs{{in[0].dtype, in[0].dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    Values sum(out[0].dims);
    for (const Values& each : in) {
      for (size_t i = 0; i < sum.data.size(); ++i) {
        sum.data[i] = InSingle(sum.data[i] + each.data[i]);
      }
    }
    return {sum};
  };
  return {1, kAnyNumber, {{"N", {}}}, infer, loop};
}

// Rows of a gradient, added where the rows of a table were taken from; -1 leaves a row out.
OperatorType SegmentSum() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    Require(in, 0, kNumbers);
    Require(in, 1, kIndices);
    const Dims &x = in[0].dims, &rows = in[1].dims;
    if (rows.size() > x.size() || !std::equal(rows.begin(), rows.end(), x.begin())) {
      Refuse("input 1 must have the first dimensions of input 0, got " + Text(in[1]));
    }
    Dims dims = {KnownOne(in, 2)};
    if (dims[0] < 0) Refuse("num_segments must not be negative");
    dims.insert(dims.end(), x.begin() + static_cast<int64_t>(rows.size()), x.end());
    return Inputs{{in[0].dtype, dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    Values sum(out[0].dims);
    const int64_t width = Product(sum.dims, 1);
    for (int64_t i = 0; i < in[1].size(); ++i) {
      const auto row = static_cast<int64_t>(in[1].data[i]);
      if (row < 0) continue;
      if (row >= sum.dims[0]) Refuse("a segment is out of range: " + std::to_string(row));
      for (int64_t j = 0; j < width; ++j) {
        double& value = sum.data[row * width + j];
        value = InSingle(value + in[0].data[i * width + j]);
      }
    }
    return {sum};
  };
  const std::vector<Attribute> attributes = {{"is_preprocessed", int64_t{0}},
                                             {"check_ids", int64_t{0}}};
  return {3, 3, attributes, infer, loop};
}

// The dimension of the channels: the last one of NHWC, the second one of NCHW.
size_t Channels(const Described& x, const Attributes& attrs) {
  const std::string& format = attrs.Text("data_format");
  if (format != "NHWC" && format != "NCHW" && format != "NCDHW" && format != "NDHWC") {
    Refuse("attribute data_format is " + format);
  }
  if (x.dims.size() < 2) Refuse("input 0 must have two dimensions, got " + Text(x));
  return format.back() == 'C' ? x.dims.size() - 1 : 1;
}

const std::vector<Attribute> kFormat = {{"data_format", std::string("NHWC")}};

OperatorType AddBias() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    Require(in, 0, kNumbers);
    RequireAlike(in, 1, 0);
    RequireShape(in, 1, {in[0].dims[Channels(in[0], attrs)]});
    return Inputs{{in[0].dtype, in[0].dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) -> Tensors {
    Values x = in[0];
    const size_t axis = Channels(out[0], attrs);
    const int64_t inner = Product(x.dims, axis + 1);
    for (int64_t i = 0; i < x.size(); ++i) x.data[i] += in[1].data[i / inner % x.dims[axis]];
    return {x};
  };
  return {2, 2, kFormat, infer, loop};
}

OperatorType BiasGradient() {
  const auto infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    Require(in, 0, kNumbers);
    return Inputs{{in[0].dtype, {in[0].dims[Channels(in[0], attrs)]}}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) -> Tensors {
    const Values& x = in[0];
    const size_t axis = Channels({out[0].dtype, x.dims}, attrs);
    const int64_t inner = Product(x.dims, axis + 1);
    Values sum(out[0].dims);
    for (int64_t i = 0; i < x.size(); ++i) {
      double& value = sum.data[i / inner % x.dims[axis]];
      value = InSingle(value + x.data[i]);
    }
    return {sum};
  };
  return {1, 1, kFormat, infer, loop};
}

}  // namespace

void AddSums(OperatorTypes* types) {
  OperatorTypes& all = *types;
  all["ReduceSum"] = Reduction(false);
  all["ReduceMean"] = Reduction(true);
  all["Cumsum"] = RunningSum();
  all["AddN"] = AddN();
  all["UnsortedSegmentSum"] = SegmentSum();
  all["BiasAdd"] = AddBias();
  all["BiasAddGrad"] = BiasGradient();
}

}  // namespace twin::cann
