// The loops of operators that are called by their type.
#include <algorithm>
#include <cmath>

#include "twin/cann/opapi/aclop.h"
#include "twin/cann/opapi/plan.h"

namespace twin::cann {

namespace {

int64_t IntegerOf(const aclopAttr& attr, const char* name, int64_t otherwise) {
  const auto found = attr.values.find(name);
  if (found == attr.values.end()) return otherwise;
  if (!std::holds_alternative<int64_t>(found->second)) Refuse(std::string(name) + " is no integer");
  return std::get<int64_t>(found->second);
}

int64_t IntegerOf(const Values& value) {
  if (value.size() != 1) Refuse("one integer was expected");
  return static_cast<int64_t>(value.data[0]);
}

// A range of one dimension.
struct Range {
  int64_t begin, step, count;
};

// Of all dimensions, with the masks applied.
std::vector<Range> Ranges(const Dims& dims, const Values& begin, const Values& end,
                          const Values& strides, const aclopAttr& attr) {
  if (IntegerOf(attr, "ellipsis_mask", 0) != 0 || IntegerOf(attr, "new_axis_mask", 0) != 0) {
    Refuse("ellipsis_mask or new_axis_mask");
  }
  const int64_t from_first = IntegerOf(attr, "begin_mask", 0);
  const int64_t to_last = IntegerOf(attr, "end_mask", 0);
  const int64_t single = IntegerOf(attr, "shrink_axis_mask", 0);
  std::vector<Range> ranges;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t size = dims[i];
    if (i >= begin.data.size()) {
      ranges.push_back({0, 1, size});
      continue;
    }
    const auto step = static_cast<int64_t>(strides.data[i]);
    const auto place = [&](double value) {
      const auto at = static_cast<int64_t>(value) + (value < 0 ? size : 0);
      return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
    };
    const bool alone = ((single >> i) & 1) != 0;
    int64_t first = place(begin.data[i]), last = place(end.data[i]);
    if (!alone && ((from_first >> i) & 1) != 0) first = step > 0 ? 0 : size - 1;
    if (!alone && ((to_last >> i) & 1) != 0) last = step > 0 ? size : -1;
    const int64_t length = step > 0 ? last - first : first - last;
    const int64_t pace = std::abs(step);
    ranges.push_back({first, step, alone ? 1 : std::max<int64_t>(0, (length + pace - 1) / pace)});
  }
  return ranges;
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

Tensors Slice(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>& out) {
  Values result(out.at(0));
  const auto ranges = Ranges(in.at(0).dims, in.at(1), in.at(2), in.at(3), attr);
  ForEachOfPart(in[0].dims, ranges,
                [&](int64_t from, int64_t to) { result.data.at(to) = in[0].data.at(from); });
  return {result};
}

Tensors SliceGradient(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>& out) {
  Values result(out.at(0));
  const auto ranges = Ranges(result.dims, in.at(1), in.at(2), in.at(3), attr);
  ForEachOfPart(result.dims, ranges,
                [&](int64_t to, int64_t from) { result.data.at(to) = in[4].data.at(from); });
  return {result};
}

Tensors Sum(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  Values sum(out.at(0));
  for (const Values& each : in) {
    const Values x = Broadcast(each, sum.dims);
    for (size_t i = 0; i < sum.data.size(); ++i) {
      // As the device adds: the sum of two is a float.
      sum.data[i] = static_cast<float>(sum.data[i] + x.data[i]);
    }
  }
  return {sum};
}

Tensors Modulo(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  Values x = Broadcast(in.at(0), out.at(0));
  const Values y = Broadcast(in.at(1), out[0]);
  for (size_t i = 0; i < x.data.size(); ++i) {
    x.data[i] -= std::floor(x.data[i] / y.data[i]) * y.data[i];
  }
  return {x};
}

Tensors Gather(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>& out) {
  if (IntegerOf(attr, "batch_dims", 0) != 0) Refuse("batch_dims");
  const Values &x = in.at(0), &places = in.at(1);
  const size_t axis = AxisOf(IntegerOf(in.at(2)), x.dims.size());
  const int64_t outer = Product(x.dims, 0, axis), count = x.dims[axis];
  const int64_t inner = Product(x.dims, axis + 1);
  Values result(out.at(0));
  for (int64_t row = 0; row < outer; ++row) {
    for (int64_t i = 0; i < places.size(); ++i) {
      const auto place = static_cast<int64_t>(places.data[i]);
      if (place < 0 || place >= count) Refuse("an index is out of range");
      std::copy_n(x.data.begin() + (row * count + place) * inner, inner,
                  result.data.begin() + (row * places.size() + i) * inner);
    }
  }
  return {result};
}

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

Tensors Divide(const Values& x, size_t axis, const std::vector<Dims>& out) {
  Tensors parts;
  const int64_t outer = Product(x.dims, 0, axis);
  const int64_t row = outer == 0 ? 0 : x.size() / outer;
  int64_t begin = 0;
  for (const Dims& dims : out) {
    Values part(dims);
    const int64_t count = outer == 0 ? 0 : part.size() / outer;
    for (int64_t i = 0; i < outer; ++i) {
      std::copy_n(x.data.begin() + i * row + begin, count, part.data.begin() + i * count);
    }
    begin += count;
    parts.push_back(part);
  }
  return parts;
}

Tensors Pack(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>& out) {
  return Join(in, AxisOf(IntegerOf(attr, "axis", 0), out.at(0).size()), out[0]);
}

Tensors Unpack(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>& out) {
  return Divide(in.at(0), AxisOf(IntegerOf(attr, "axis", 0), in[0].dims.size()), out);
}

Tensors Split(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  return Divide(in.at(1), AxisOf(IntegerOf(in.at(0)), in[1].dims.size()), out);
}

Tensors SplitAlong(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>& out) {
  return Divide(in.at(0), AxisOf(IntegerOf(attr, "split_dim", 0), in[0].dims.size()), out);
}

// Elementwise, the inputs broadcast.
Operator OfTwo(double (*f)(double, double)) {
  return [f](const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) -> Tensors {
    Values x = Broadcast(in.at(0), out.at(0));
    const Values y = Broadcast(in.at(1), out[0]);
    for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = f(x.data[i], y.data[i]);
    return {x};
  };
}

Operator OfOne(double (*f)(double)) {
  return [f](const Tensors& in, const aclopAttr&, const std::vector<Dims>&) -> Tensors {
    Values x = in.at(0);
    for (double& value : x.data) value = f(value);
    return {x};
  };
}

// Along axes that are an input; all of them where it is empty.
Operator Reduction(bool mean) {
  return [mean](const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) -> Tensors {
    const Values& x = in.at(0);
    std::vector<bool> reduced(x.dims.size(), in.at(1).size() == 0);
    for (double axis : in[1].data) {
      reduced[AxisOf(static_cast<int64_t>(axis), x.dims.size())] = true;
    }
    const Dims own = StridesOf(x.dims);
    Dims kept = x.dims;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (reduced[i]) kept[i] = 1;
    }
    const Dims steps = StridesOf(kept);
    Values sum(out.at(0));
    if (sum.size() != Product(kept)) Refuse("the shape of a sum");
    for (int64_t at = 0; at < x.size(); ++at) {
      int64_t to = 0;
      for (size_t i = 0; i < kept.size(); ++i) {
        if (!reduced[i]) to += at / own[i] % x.dims[i] * steps[i];
      }
      sum.data[to] += x.data[at];
    }
    const double count = static_cast<double>(x.size()) / static_cast<double>(sum.size());
    for (double& value : sum.data) value = mean ? value / count : value;
    return {sum};
  };
}

Tensors RunningSum(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>&) {
  if (IntegerOf(attr, "exclusive", 0) != 0 || IntegerOf(attr, "reverse", 0) != 0) {
    Refuse("exclusive or reverse");
  }
  Values x = in.at(0);
  const size_t axis = AxisOf(IntegerOf(in.at(1)), x.dims.size());
  const int64_t step = StridesOf(x.dims).at(axis);
  for (int64_t at = 0; at < x.size(); ++at) {
    if (at / step % x.dims[axis] > 0) x.data[at] += x.data[at - step];
  }
  return {x};
}

// Rows of logits and a class for each: the losses, and their gradients.
Tensors SoftmaxCrossEntropy(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  const Values &x = in.at(0), &labels = in.at(1);
  const int64_t classes = x.dims.back();
  const bool dense = labels.size() == x.size();
  Values losses(out.at(0)), gradients(x.dims);
  for (int64_t row = 0; row < x.size() / classes; ++row) {
    const double* logits = x.data.data() + row * classes;
    const double most = *std::max_element(logits, logits + classes);
    double sum = 0;
    for (int64_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - most);
    for (int64_t i = 0; i < classes; ++i) {
      const double label = dense ? labels.data[row * classes + i]
                                 : static_cast<double>(labels.data[row] == static_cast<double>(i));
      losses.data[row] -= label == 0 ? 0 : label * (logits[i] - most - std::log(sum));
      gradients.data[row * classes + i] = std::exp(logits[i] - most) / sum - label;
    }
  }
  return {losses, gradients};
}

Tensors Count(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  Values result(out.at(0));
  for (int64_t i = 0; i < result.size(); ++i) {
    result.data[i] = in.at(0).data.at(0) + static_cast<double>(i) * in.at(2).data.at(0);
  }
  return {result};
}

// MindSpore fuses a step of AdamW into it. Inputs: gradient, second and first moment, weight, rate,
// beta1, 1 - beta1, beta2, 1 - beta2, decay, epsilon; outputs: second and first moment, weight.
Tensors AdamW(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  Values second(out.at(0)), first(out.at(1)), weight(out.at(2));
  const auto scalar = [&](size_t i) { return in.at(i).data.at(0); };
  for (size_t i = 0; i < weight.data.size(); ++i) {
    const double gradient = in.at(0).data.at(i), old = in.at(3).data.at(i);
    first.data[i] = scalar(5) * in.at(2).data.at(i) + scalar(6) * gradient;
    second.data[i] = scalar(7) * in.at(1).data.at(i) + scalar(8) * gradient * gradient;
    const double change = first.data[i] / (std::sqrt(second.data[i]) + scalar(10));
    weight.data[i] = old - scalar(4) * (scalar(9) * old + change);
  }
  return {second, first, weight};
}

// A step of SGD with momentum. Inputs: weight, accumulator, rate, gradient, momentum; the weight is
// the output, and the accumulator is written.
Tensors Momentum(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>&) {
  Values weight = in.at(0), accumulator = in.at(1);
  const double rate = in.at(2).data.at(0), momentum = in.at(4).data.at(0);
  const bool nesterov = IntegerOf(attr, "use_nesterov", 0) != 0;
  for (size_t i = 0; i < weight.data.size(); ++i) {
    const double gradient = in.at(3).data.at(i);
    double& kept = accumulator.data.at(i);
    kept = momentum * kept + gradient;
    weight.data[i] -= rate * (nesterov ? gradient + momentum * kept : kept);
  }
  return {weight, accumulator};
}

// Channels are the second dimension, of a matrix its columns.
Tensors AddBias(const Tensors& in, const aclopAttr&, const std::vector<Dims>&) {
  Values x = in.at(0);
  const int64_t channels = x.dims.at(1), inner = Product(x.dims, 2);
  if (in.at(1).size() != channels) Refuse("the size of a bias");
  for (int64_t i = 0; i < x.size(); ++i) x.data[i] += in[1].data[i / inner % channels];
  return {x};
}

Tensors BiasGradient(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  const Values& x = in.at(0);
  Values sum(out.at(0));
  const int64_t channels = x.dims.at(1), inner = Product(x.dims, 2);
  if (sum.size() != channels) Refuse("the size of a bias");
  for (int64_t i = 0; i < x.size(); ++i) sum.data[i / inner % channels] += x.data[i];
  return {sum};
}

Tensors OneHot(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>& out) {
  Values result(out.at(0));
  const size_t rank = result.dims.size();
  if (AxisOf(IntegerOf(attr, "axis", -1), rank) != rank - 1) Refuse("axis");
  const int64_t classes = result.dims.back();
  for (int64_t at = 0; at < result.size(); ++at) {
    const bool on = in.at(0).data.at(at / classes) == static_cast<double>(at % classes);
    result.data[at] = in.at(on ? 2 : 3).data.at(0);
  }
  return {result};
}

Tensors Repeat(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  const Values& x = in.at(0);
  Dims dims(out.at(0).size() - x.dims.size(), 1);
  dims.insert(dims.end(), x.dims.begin(), x.dims.end());
  Values result(out[0]);
  const Dims own = StridesOf(dims), steps = StridesOf(out[0]);
  for (int64_t at = 0; at < result.size(); ++at) {
    int64_t from = 0;
    for (size_t i = 0; i < dims.size(); ++i) from += at / steps[i] % out[0][i] % dims[i] * own[i];
    result.data[at] = x.data[from];
  }
  return {result};
}

Tensors Expand(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  return {Broadcast(in.at(0), out.at(0))};
}

Tensors SameBits(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  Values x = in.at(0);
  x.dims = out.at(0);
  return {x};
}

Tensors Second(const Tensors& in, const aclopAttr&, const std::vector<Dims>&) { return {in.at(1)}; }

Tensors Choose(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  const Values chosen = Broadcast(in.at(0), out.at(0));
  Values x = Broadcast(in.at(1), out[0]);
  const Values y = Broadcast(in.at(2), out[0]);
  for (size_t i = 0; i < x.data.size(); ++i) {
    if (chosen.data[i] == 0) x.data[i] = y.data[i];
  }
  return {x};
}

Tensors Turn(const Tensors& in, const aclopAttr&, const std::vector<Dims>&) {
  std::vector<size_t> order;
  for (double axis : in.at(1).data) {
    order.push_back(AxisOf(static_cast<int64_t>(axis), in[0].dims.size()));
  }
  return {Permute(in[0], order)};
}

Tensors Concatenate(const Tensors& in, const aclopAttr& attr, const std::vector<Dims>& out) {
  return Join(in, AxisOf(IntegerOf(attr, "concat_dim", 0), out.at(0).size()), out[0]);
}

// Rows of a gradient added where the rows of a table were taken from.
Tensors AddRows(const Tensors& in, const aclopAttr&, const std::vector<Dims>& out) {
  Values sum(out.at(0));
  const int64_t width = Product(sum.dims, 1);
  for (int64_t i = 0; i < in.at(1).size(); ++i) {
    const auto row = static_cast<int64_t>(in[1].data[i]);
    if (row < 0) continue;
    for (int64_t j = 0; j < width; ++j) sum.data.at(row * width + j) += in[0].data[i * width + j];
  }
  return {sum};
}

}  // namespace

const std::map<std::string, Operator>& AclopOperators() {
  static const std::map<std::string, Operator> operators = {
      {"Add", OfTwo([](double x, double y) { return x + y; })},
      {"Sub", OfTwo([](double x, double y) { return x - y; })},
      {"Mul", OfTwo([](double x, double y) { return x * y; })},
      {"RealDiv", OfTwo([](double x, double y) { return x / y; })},
      {"FloorDiv", OfTwo([](double x, double y) { return std::floor(x / y); })},
      {"Maximum", OfTwo([](double x, double y) { return x > y || x != x ? x : y; })},
      {"Minimum", OfTwo([](double x, double y) { return x < y || x != x ? x : y; })},
      {"Pow", OfTwo([](double x, double y) { return std::pow(x, y); })},
      {"RsqrtGrad", OfTwo([](double y, double d) { return -0.5 * d * y * y * y; })},
      {"SqrtGrad", OfTwo([](double y, double d) { return 0.5 * d / y; })},
      {"Less", OfTwo([](double x, double y) -> double { return x < y; })},
      {"LessEqual", OfTwo([](double x, double y) -> double { return x <= y; })},
      {"Greater", OfTwo([](double x, double y) -> double { return x > y; })},
      {"GreaterEqual", OfTwo([](double x, double y) -> double { return x >= y; })},
      {"Equal", OfTwo([](double x, double y) -> double { return x == y; })},
      {"NotEqual", OfTwo([](double x, double y) -> double { return x != y; })},
      {"LogicalAnd", OfTwo([](double x, double y) -> double { return x != 0 && y != 0; })},
      {"LogicalOr", OfTwo([](double x, double y) -> double { return x != 0 || y != 0; })},
      {"LogicalNot", OfOne([](double x) -> double { return x == 0; })},
      {"Cast", OfOne([](double x) { return x; })},
      {"Neg", OfOne([](double x) { return -x; })},
      {"Exp", OfOne([](double x) { return std::exp(x); })},
      {"Log", OfOne([](double x) { return std::log(x); })},
      {"Sqrt", OfOne([](double x) { return std::sqrt(x); })},
      {"Rsqrt", OfOne([](double x) { return 1 / std::sqrt(x); })},
      {"Square", OfOne([](double x) { return x * x; })},
      {"ZerosLike", OfOne([](double) { return 0.0; })},
      {"OnesLike", OfOne([](double) { return 1.0; })},
      {"ReduceMean", Reduction(true)},
      {"ReduceSum", Reduction(false)},
      {"Cumsum", RunningSum},
      {"SparseSoftmaxCrossEntropyWithLogits", SoftmaxCrossEntropy},
      {"SoftmaxCrossEntropyWithLogits", SoftmaxCrossEntropy},
      {"OneHot", OneHot},
      {"AdamApplyOneWithDecay", AdamW},
      {"AdamApplyOneWithDecayAssign", AdamW},
      {"ApplyMomentum", Momentum},
      {"BiasAdd", AddBias},
      {"BiasAddGrad", BiasGradient},
      {"Range", Count},
      {"Tile", Repeat},
      {"BroadcastTo", Expand},
      {"Reshape", SameBits},
      {"TensorMove", SameBits},
      {"Assign", Second},
      {"AssignAdd", OfTwo([](double x, double y) { return x + y; })},
      {"AssignSub", OfTwo([](double x, double y) { return x - y; })},
      {"Select", Choose},
      {"Transpose", Turn},
      {"ConcatD", Concatenate},
      {"UnsortedSegmentSum", AddRows},
      {"AddN", Sum},
      {"FloorMod", Modulo},
      {"GatherV2", Gather},
      {"Pack", Pack},
      {"Unpack", Unpack},
      {"Split", Split},
      {"SplitD", SplitAlong},
      {"StridedSlice", Slice},
      {"StridedSliceGrad", SliceGradient},
  };
  return operators;
}

const std::vector<size_t>& WrittenInputs(const std::string& type) {
  static const std::map<std::string, std::vector<size_t>> written = {{"ApplyMomentum", {1}}};
  static const std::vector<size_t> none;
  const auto found = written.find(type);
  return found == written.end() ? none : found->second;
}

}  // namespace twin::cann
