// Operators that reduce along dimensions, and those that normalise along one.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

// Which dimensions are reduced; none named: all.
std::vector<bool> Reduced(const Dims& axes, size_t rank) {
  std::vector<bool> reduced(rank, axes.empty());
  for (int64_t axis : axes) {
    if (rank > 0) reduced[AxisOf(axis, rank)] = true;
  }
  return reduced;
}

using Fold = std::function<double(double, double)>;

// Along the dimensions, kept as 1.
Values Reduce(const Values& x, const std::vector<bool>& reduced, double start, const Fold& fold) {
  Dims dims = x.dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (reduced[i]) dims[i] = 1;
  }
  Values result(dims, start);
  const Dims own = StridesOf(x.dims);
  const Dims steps = StridesOf(dims);
  for (int64_t at = 0; at < x.size(); ++at) {
    int64_t to = 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (!reduced[i]) to += at / own[i] % x.dims[i] * steps[i];
    }
    result.data[to] = fold(result.data[to], x.data[at]);
  }
  return result;
}

void Reduction(Plan& plan, const aclTensor* self, const Dims& axes, bool keep, const aclTensor* out,
               double start, const Fold& fold, bool mean = false) {
  plan.In("self", self);
  plan.Out("out", out);
  const std::vector<bool> reduced = Reduced(axes, self->dims.size());
  Dims expected;
  int64_t count = 1;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) expected.push_back(self->dims[i]);
    if (reduced[i] && keep) expected.push_back(1);
    if (reduced[i]) count *= self->dims[i];
  }
  RequireDims("out", out, expected);
  plan.compute = [=](const Arguments& all) {
    Values sum = Reduce(Read(all[0]), reduced, start, fold);
    for (double& value : sum.data) {
      if (mean) value /= static_cast<double>(count);
    }
    Write(sum, all[1]);
  };
}

double Sum(double a, double b) { return a + b; }
double Larger(double a, double b) { return b > a || b != b ? b : a; }
double Smaller(double a, double b) { return b < a || b != b ? b : a; }

// Calls row(first, step, count) for every row along a dimension.
template <class Row>
void ForEachRow(const Dims& dims, size_t axis, Row row) {
  const int64_t count = dims.empty() ? 1 : dims[axis];
  const int64_t step = dims.empty() ? 1 : StridesOf(dims)[axis];
  const int64_t all = Product(dims);
  for (int64_t at = 0; at < all; ++at) {
    if (at / step % count == 0) row(at, step, count);
  }
}

void SoftMax(Plan& plan, const aclTensor* self, int64_t dim, const aclTensor* out, bool log) {
  plan.In("self", self);
  plan.Out("out", out);
  RequireFloating({self, out});
  RequireDims("out", out, self->dims);
  const size_t axis = AxisOf(dim, self->dims.size());
  plan.compute = [axis, log](const Arguments& all) {
    Values x = Read(all[0]);
    ForEachRow(x.dims, axis, [&](int64_t first, int64_t step, int64_t count) {
      double most = -INFINITY, sum = 0;
      for (int64_t i = 0; i < count; ++i) most = Larger(most, x.data[first + i * step]);
      for (int64_t i = 0; i < count; ++i) sum += std::exp(x.data[first + i * step] - most);
      for (int64_t i = 0; i < count; ++i) {
        double& value = x.data[first + i * step];
        value = log ? value - most - std::log(sum) : std::exp(value - most) / sum;
      }
    });
    Write(x, all[1]);
  };
}

void SoftMaxBackward(Plan& plan, const aclTensor* grad, const aclTensor* output, int64_t dim,
                     const aclTensor* out, bool log) {
  plan.In("gradOutput", grad);
  plan.In("output", output);
  plan.Out("out", out);
  RequireFloating({grad, output, out});
  RequireDims("output", output, grad->dims);
  RequireDims("out", out, grad->dims);
  const size_t axis = AxisOf(dim, grad->dims.size());
  plan.compute = [axis, log](const Arguments& all) {
    Values d = Read(all[0]);
    const Values y = Read(all[1]);
    ForEachRow(d.dims, axis, [&](int64_t first, int64_t step, int64_t count) {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = first + i * step;
        sum += log ? d.data[at] : d.data[at] * y.data[at];
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = first + i * step;
        d.data[at] =
            log ? d.data[at] - std::exp(y.data[at]) * sum : y.data[at] * (d.data[at] - sum);
      }
    });
    Write(d, all[2]);
  };
}

// The shape of one value for every row of x, whose last dimensions are those of gamma.
Dims OfRows(const aclTensor* x, const aclTensor* gamma) {
  const size_t rank = x->dims.size(), normed = gamma->dims.size();
  if (normed == 0 || normed > rank) Refuse("gamma has another rank than x");
  Dims rows = x->dims;
  for (size_t i = 0; i < normed; ++i) {
    if (rows[rank - normed + i] != gamma->dims[i]) Refuse("gamma has another shape than x");
    rows[rank - normed + i] = 1;
  }
  return rows;
}

void RmsNorm(Plan& plan, const aclTensor* x, const aclTensor* gamma, double epsilon,
             const aclTensor* y, const aclTensor* rstd) {
  plan.In("x", x);
  plan.In("gamma", gamma);
  plan.Out("yOut", y);
  plan.Out("rstdOut", rstd);
  RequireFloating({x, gamma, y, rstd});
  RequireDims("yOut", y, x->dims);
  RequireDims("rstdOut", rstd, OfRows(x, gamma));
  plan.compute = [epsilon](const Arguments& all) {
    Values x = Read(all[0]);
    const Values gamma = Read(all[1]);
    Values rstd(all[3].tensor.dims);
    for (int64_t row = 0; row < rstd.size(); ++row) {
      const auto begin = x.data.begin() + row * gamma.size();
      const double squares = std::inner_product(begin, begin + gamma.size(), begin, 0.0);
      const double mean = squares / static_cast<double>(gamma.size());
      rstd.data[row] = 1 / std::sqrt(mean + epsilon);
      for (int64_t i = 0; i < gamma.size(); ++i) begin[i] *= rstd.data[row] * gamma.data[i];
    }
    Write(x, all[2]);
    Write(rstd, all[3]);
  };
}

void RmsNormGradient(Plan& plan, const aclTensor* dy, const aclTensor* x, const aclTensor* rstd,
                     const aclTensor* gamma, const aclTensor* dx, const aclTensor* dgamma) {
  plan.In("dy", dy);
  plan.In("x", x);
  plan.In("rstd", rstd);
  plan.In("gamma", gamma);
  plan.Out("dxOut", dx);
  plan.Out("dgammaOut", dgamma);
  RequireFloating({dy, x, rstd, gamma, dx, dgamma});
  RequireDims("dy", dy, x->dims);
  RequireDims("rstd", rstd, OfRows(x, gamma));
  RequireDims("dxOut", dx, x->dims);
  RequireDims("dgammaOut", dgamma, gamma->dims);
  plan.compute = [](const Arguments& all) {
    const Values dy = Read(all[0]), x = Read(all[1]), rstd = Read(all[2]), gamma = Read(all[3]);
    Values dx(x.dims), dgamma(gamma.dims);
    const int64_t count = gamma.size();
    for (int64_t row = 0; row < rstd.size(); ++row) {
      double mean = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = row * count + i;
        const double normed = x.data[at] * rstd.data[row];
        mean += dy.data[at] * gamma.data[i] * normed / static_cast<double>(count);
        dgamma.data[i] += dy.data[at] * normed;
      }
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = row * count + i;
        const double normed = x.data[at] * rstd.data[row];
        dx.data[at] = rstd.data[row] * (dy.data[at] * gamma.data[i] - normed * mean);
      }
    }
    Write(dx, all[4]);
    Write(dgamma, all[5]);
  };
}

}  // namespace

ACLNN(ReduceSum, const aclTensor* self, const aclIntArray* dims, bool keepDims, aclDataType,
      aclTensor* out)
PLAN({ Reduction(plan, self, Integers(dims), keepDims, out, 0, Sum); });
ACLNN(Mean, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclDataType,
      aclTensor* out)
PLAN({ Reduction(plan, self, Integers(dim), keepDim, out, 0, Sum, true); });
ACLNN(Amax, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out)
PLAN({ Reduction(plan, self, Integers(dim), keepDim, out, -INFINITY, Larger); });
ACLNN(Amin, const aclTensor* self, const aclIntArray* dim, bool keepDim, aclTensor* out)
PLAN({ Reduction(plan, self, Integers(dim), keepDim, out, INFINITY, Smaller); });
ACLNN(Max, const aclTensor* self, aclTensor* out)
PLAN({ Reduction(plan, self, {}, false, out, -INFINITY, Larger); });
ACLNN(All, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out)
PLAN({
  Reduction(plan, self, Integers(dim), keepdim, out, 1,
            [](double a, double b) { return a != 0 && b != 0; });
});
ACLNN(Any, const aclTensor* self, const aclIntArray* dim, bool keepdim, aclTensor* out)
PLAN({
  Reduction(plan, self, Integers(dim), keepdim, out, 0,
            [](double a, double b) { return a != 0 || b != 0; });
});
// Of MindSpore's own operators' package, which a loss scale asks: one flag for all gradients, which
// it clears first.
ACLNN(AllFinite, const aclTensor* gradient, const aclTensor* out)
PLAN({
  plan.In("gradient", gradient);
  plan.InOut("out", out);
  RequireFloating({gradient});
  if (out->dtype != ACL_BOOL || Product(out->dims) != 1) Refuse("out must be one bool");
  plan.compute = [](const Arguments& all) {
    Values overflow = Read(all[1]);
    for (const double value : Read(all[0]).data) {
      if (!std::isfinite(value)) overflow.data[0] = 1;
    }
    Write(overflow, all[2]);
  };
});
ACLNN(Softmax, const aclTensor* self, int64_t dim, aclTensor* out)
PLAN({ SoftMax(plan, self, dim, out, false); });
ACLNN(LogSoftmax, const aclTensor* self, int64_t dim, aclTensor* out)
PLAN({ SoftMax(plan, self, dim, out, true); });
ACLNN(SoftmaxBackward, const aclTensor* gradOutput, const aclTensor* output, int64_t dim,
      aclTensor* out)
PLAN({ SoftMaxBackward(plan, gradOutput, output, dim, out, false); });
ACLNN(LogSoftmaxBackward, const aclTensor* gradOutput, const aclTensor* output, int64_t dim,
      aclTensor* out)
PLAN({ SoftMaxBackward(plan, gradOutput, output, dim, out, true); });
ACLNN(RmsNorm, const aclTensor* x, const aclTensor* gamma, double epsilon, const aclTensor* yOut,
      const aclTensor* rstdOut)
PLAN({ RmsNorm(plan, x, gamma, epsilon, yOut, rstdOut); });
ACLNN(RmsNormGrad, const aclTensor* dy, const aclTensor* x, const aclTensor* rstd,
      const aclTensor* gamma, const aclTensor* dxOut, const aclTensor* dgammaOut)
PLAN({ RmsNormGradient(plan, dy, x, rstd, gamma, dxOut, dgammaOut); });
ACLNN(ArgMax, const aclTensor* self, int64_t dim, bool keepdim, aclTensor* out)
PLAN({
  plan.In("self", self);
  plan.Out("out", out);
  const size_t axis = AxisOf(dim, self->dims.size());
  Dims expected = self->dims;
  if (keepdim) expected[axis] = 1;
  if (!keepdim) expected.erase(expected.begin() + static_cast<int64_t>(axis));
  RequireDims("out", out, expected);
  plan.compute = [axis](const Arguments& all) {
    const Values x = Read(all[0]);
    Values places(all[1].tensor.dims);
    size_t next = 0;
    ForEachRow(x.dims, axis, [&](int64_t first, int64_t step, int64_t count) {
      int64_t best = 0;
      for (int64_t i = 1; i < count; ++i) {
        if (x.data[first + i * step] > x.data[first + best * step]) best = i;
      }
      places.data[next++] = static_cast<double>(best);
    });
    Write(places, all[1]);
  };
});
