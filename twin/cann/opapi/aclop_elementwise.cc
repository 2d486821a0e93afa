// Operators by type that work element by element.
#include <cmath>

#include "twin/cann/opapi/aclop.h"
#include "twin/cann/opapi/plan.h"

namespace twin::cann {

namespace {

using Two = double (*)(double, double);
using One = double (*)(double);

// Both inputs have one dtype; `truth`: the output is a bool.
OperatorType OfTwo(Dtypes allowed, Two f, bool truth = false) {
  const auto infer = [allowed, truth](const Inputs& in, const Attributes&, size_t) {
    Require(in, 0, allowed);
    RequireAlike(in, 1, 0);
    return Inputs{{truth ? ACL_BOOL : in[0].dtype, BroadcastDims(in[0].dims, in[1].dims)}};
  };
  const auto loop = [f](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    Values x = Broadcast(in[0], out[0].dims);
    const Values y = Broadcast(in[1], out[0].dims);
    for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = f(x.data[i], y.data[i]);
    return {x};
  };
  return {2, 2, {}, infer, loop};
}

// The second input is added to the first, whose shape and dtype it has, and which is the output.
OperatorType InPlace(Two f, std::vector<Attribute> attributes) {
  OperatorType type = OfTwo(kAll, f);
  type.attributes = std::move(attributes);
  type.infer = [](const Inputs& in, const Attributes&, size_t) {
    RequireAlike(in, 1, 0);
    RequireShape(in, 1, in[0].dims);
    return Inputs{{in[0].dtype, in[0].dims}};
  };
  return type;
}

OperatorType OfOne(Dtypes allowed, One f) {
  const auto infer = [allowed](const Inputs& in, const Attributes&, size_t) {
    Require(in, 0, allowed);
    return Inputs{{in[0].dtype, in[0].dims}};
  };
  const auto loop = [f](const Tensors& in, const Attributes&, const Inputs&) -> Tensors {
    Values x = in[0];
    for (double& value : x.data) value = f(value);
    return {x};
  };
  return {1, 1, {}, infer, loop};
}

// exp and log of scale * x + shift, to a base that is e where it is -1.
OperatorType OfBase(bool log) {
  OperatorType type = OfOne(kFloats, nullptr);
  type.attributes = {{"base", -1.0}, {"scale", 1.0}, {"shift", 0.0}};
  const auto check = type.infer;
  type.infer = [check](const Inputs& in, const Attributes& attrs, size_t outputs) {
    const double base = attrs.Real("base");
    if (base != -1 && !(base > 0)) {
      Refuse("attribute base must be -1 or positive, got " + std::to_string(base));
    }
    return check(in, attrs, outputs);
  };
  type.loop = [log](const Tensors& in, const Attributes& attrs, const Inputs&) -> Tensors {
    Values x = in[0];
    const double base = attrs.Real("base");
    const double rate = base == -1 ? 1 : InSingle(std::log(base));
    for (double& value : x.data) {
      value = InSingle(InSingle(attrs.Real("scale") * value) + attrs.Real("shift"));
      value = log ? InSingle(std::log(value)) / rate : std::exp(InSingle(rate * value));
    }
    return {x};
  };
  return type;
}

// Attribute dst_type is the number of the output's dtype.
OperatorType Cast() {
  OperatorType type = OfOne(kAll, [](double x) { return x; });
  type.attributes = {{"dst_type", {}}};
  type.infer = [](const Inputs& in, const Attributes& attrs, size_t) {
    const auto dtype = static_cast<aclDataType>(attrs.Integer("dst_type"));
    if (!IsKnown(dtype)) Refuse("attribute dst_type is no dtype that the twin knows");
    return Inputs{{dtype, in[0].dims}};
  };
  return type;
}

OperatorType Select() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    Require(in, 0, kBool);
    RequireAlike(in, 2, 1);
    const Dims dims = BroadcastDims(in[1].dims, in[2].dims);
    return Inputs{{in[1].dtype, BroadcastDims(in[0].dims, dims)}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs& out) -> Tensors {
    const Values chosen = Broadcast(in[0], out[0].dims);
    Values x = Broadcast(in[1], out[0].dims);
    const Values y = Broadcast(in[2], out[0].dims);
    for (size_t i = 0; i < x.data.size(); ++i) {
      if (chosen.data[i] == 0) x.data[i] = y.data[i];
    }
    return {x};
  };
  return {3, 3, {}, infer, loop};
}

double Larger(double x, double y) { return x > y || x != x ? x : y; }
double Smaller(double x, double y) { return x < y || x != x ? x : y; }
double Add(double x, double y) { return x + y; }
double Subtract(double x, double y) { return x - y; }
double FloorOf(double x, double y) { return std::floor(x / y); }

}  // namespace

void AddElementwise(OperatorTypes* types) {
  OperatorTypes& all = *types;
  constexpr Dtypes kCompared = kFloats | kIndices | Only(ACL_INT8) | Only(ACL_UINT8);
  all["Add"] = OfTwo(kAll, Add);
  all["Sub"] = OfTwo(kAll, Subtract);
  all["Mul"] = OfTwo(kAll, [](double x, double y) { return x * y; });
  all["RealDiv"] = OfTwo(kFloats, [](double x, double y) { return x / y; });
  all["FloorDiv"] = OfTwo(kNumbers, FloorOf);
  all["FloorMod"] =
      OfTwo(kFloats | kIndices, [](double x, double y) { return x - InSingle(FloorOf(x, y) * y); });
  all["Maximum"] = OfTwo(kCompared, Larger);
  all["Minimum"] = OfTwo(kCompared, Smaller);
  all["Pow"] = OfTwo(kNumbers, [](double x, double y) { return std::pow(x, y); });
  all["RsqrtGrad"] = OfTwo(kFloats, [](double y, double d) {
    return InSingle(InSingle(-0.5 * d) * InSingle(y * InSingle(y * y)));
  });
  all["SqrtGrad"] = OfTwo(kFloats, [](double y, double d) { return InSingle(0.5 * d) / y; });
  all["Less"] = OfTwo(kNumbers, [](double x, double y) -> double { return x < y; }, true);
  all["LessEqual"] = OfTwo(kNumbers, [](double x, double y) -> double { return x <= y; }, true);
  all["Greater"] = OfTwo(kNumbers, [](double x, double y) -> double { return x > y; }, true);
  all["GreaterEqual"] = OfTwo(kNumbers, [](double x, double y) -> double { return x >= y; }, true);
  all["Equal"] = OfTwo(kAll, [](double x, double y) -> double { return x == y; }, true);
  all["NotEqual"] = OfTwo(kAll, [](double x, double y) -> double { return x != y; }, true);
  all["LogicalAnd"] =
      OfTwo(kBool, [](double x, double y) -> double { return x != 0 && y != 0; }, true);
  all["LogicalOr"] =
      OfTwo(kBool, [](double x, double y) -> double { return x != 0 || y != 0; }, true);
  all["LogicalNot"] = OfOne(kBool, [](double x) -> double { return x == 0; });
  all["Neg"] = OfOne(kFloats | kIndices | Only(ACL_INT8), [](double x) { return -x; });
  all["Sqrt"] = OfOne(kFloats, [](double x) { return std::sqrt(x); });
  all["Rsqrt"] = OfOne(kFloats, [](double x) { return 1 / InSingle(std::sqrt(x)); });
  all["Square"] = OfOne(kFloats | kIndices, [](double x) { return x * x; });
  all["ZerosLike"] = OfOne(kAll, [](double) { return 0.0; });
  all["OnesLike"] = OfOne(kAll, [](double) { return 1.0; });
  for (const char* copy : {"Identity", "TensorMove"}) {
    all[copy] = OfOne(kAll, [](double x) { return x; });
    all[copy].copied = 0;
  }
  all["Exp"] = OfBase(false);
  all["Log"] = OfBase(true);
  all["Cast"] = Cast();
  all["Select"] = Select();
  const Attribute locking = {"use_locking", int64_t{0}};
  all["AssignAdd"] = InPlace(Add, {locking});
  all["AssignSub"] = InPlace(Subtract, {locking});
  all["Assign"] =
      InPlace([](double, double y) { return y; }, {{"validate_shape", int64_t{1}}, locking});
  all["Assign"].copied = 1;
}

}  // namespace twin::cann
