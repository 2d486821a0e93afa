// Operators that normalise along dimensions: softmax and its kin, RMSNorm.
#include <algorithm>
#include <cmath>

#include "twin/cann/opapi/plan.h"
#include "twin/cann/opapi/rows.h"

using namespace twin::cann;

namespace {

void SoftMax(Plan& plan, const aclTensor* self, int64_t dim, const aclTensor* out, bool log) {
  plan.In("self", self, kFloats);
  plan.Out("out", out, kFloats);
  RequireDims("out", out, self->dims);
  const size_t axis = AxisOf(dim, self->dims.size());
  plan.compute = [axis, log](const Arguments& all) {
    Values x = Read(all[0]);
    ForEachRow(x.dims, axis, [&](int64_t first, int64_t step, int64_t count) {
      std::vector<double> row(static_cast<size_t>(count)), powers(row);
      double most = -INFINITY;
      for (int64_t i = 0; i < count; ++i) {
        row[i] = x.data[first + i * step];
        if (row[i] > most || row[i] != row[i]) most = row[i];
      }
      for (int64_t i = 0; i < count; ++i) {
        row[i] = InSingle(row[i] - most);
        powers[i] = InSingle(std::exp(row[i]));
      }
      const double sum = SumOf(powers.data(), count);
      const double whole = InSingle(std::log(sum));
      for (int64_t i = 0; i < count; ++i) {
        x.data[first + i * step] = InSingle(log ? row[i] - whole : powers[i] / sum);
      }
    });
    Write(x, all[1]);
  };
}

void SoftMaxBackward(Plan& plan, const aclTensor* grad, const aclTensor* output, int64_t dim,
                     const aclTensor* out, bool log) {
  plan.In("gradOutput", grad, kFloats);
  plan.In("output", output, kFloats);
  plan.Out("out", out, kFloats);
  RequireSameDtype("output", output, "gradOutput", grad);
  RequireDims("output", output, grad->dims);
  RequireDims("out", out, grad->dims);
  const size_t axis = AxisOf(dim, grad->dims.size());
  plan.compute = [axis, log](const Arguments& all) {
    Values d = Read(all[0]);
    const Values y = Read(all[1]);
    ForEachRow(d.dims, axis, [&](int64_t first, int64_t step, int64_t count) {
      std::vector<double> terms(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = first + i * step;
        terms[i] = log ? d.data[at] : InSingle(d.data[at] * y.data[at]);
      }
      const double sum = SumOf(terms.data(), count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = first + i * step;
        d.data[at] = InSingle(log ? d.data[at] - InSingle(InSingle(std::exp(y.data[at])) * sum)
                                  : y.data[at] * InSingle(d.data[at] - sum));
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
  plan.In("x", x, kFloats);
  plan.In("gamma", gamma, x->dtype == ACL_FLOAT ? Only(ACL_FLOAT) : kFloats);
  plan.Out("yOut", y, kFloats);
  plan.Out("rstdOut", rstd, Only(ACL_FLOAT));
  if (gamma->dtype != ACL_FLOAT) RequireSameDtype("gamma", gamma, "x", x);
  RequireSameDtype("yOut", y, "x", x);
  RequireDims("yOut", y, x->dims);
  RequireDims("rstdOut", rstd, OfRows(x, gamma));
  plan.compute = [epsilon](const Arguments& all) {
    Values x = Read(all[0]);
    const Values gamma = Read(all[1]);
    Values rstd(all[3].tensor.dims);
    for (int64_t row = 0; row < rstd.size(); ++row) {
      const auto begin = x.data.begin() + row * gamma.size();
      std::vector<double> squares(begin, begin + gamma.size());
      for (double& value : squares) value = InSingle(value * value);
      const double sum = SumOf(squares.data(), gamma.size());
      const double mean = InSingle(sum / static_cast<double>(gamma.size()));
      rstd.data[row] = InSingle(1 / InSingle(std::sqrt(InSingle(mean + InSingle(epsilon)))));
      for (int64_t i = 0; i < gamma.size(); ++i) {
        begin[i] = InSingle(InSingle(begin[i] * rstd.data[row]) * gamma.data[i]);
      }
    }
    Write(x, all[2]);
    Write(rstd, all[3]);
  };
}

void RmsNormGradient(Plan& plan, const aclTensor* dy, const aclTensor* x, const aclTensor* rstd,
                     const aclTensor* gamma, const aclTensor* dx, const aclTensor* dgamma) {
  plan.In("dy", dy, kFloats);
  plan.In("x", x, kFloats);
  plan.In("rstd", rstd, Only(ACL_FLOAT));
  plan.In("gamma", gamma, x->dtype == ACL_FLOAT ? Only(ACL_FLOAT) : kFloats);
  plan.Out("dxOut", dx, kFloats);
  plan.Out("dgammaOut", dgamma, Only(ACL_FLOAT));
  RequireSameDtype("dy", dy, "x", x);
  if (gamma->dtype != ACL_FLOAT) RequireSameDtype("gamma", gamma, "x", x);
  RequireSameDtype("dxOut", dx, "x", x);
  RequireDims("dy", dy, x->dims);
  RequireDims("rstd", rstd, OfRows(x, gamma));
  RequireDims("dxOut", dx, x->dims);
  RequireDims("dgammaOut", dgamma, gamma->dims);
  plan.compute = [](const Arguments& all) {
    const Values dy = Read(all[0]), x = Read(all[1]), rstd = Read(all[2]), gamma = Read(all[3]);
    Values dx(x.dims), dgamma(gamma.dims);
    const int64_t count = gamma.size();
    for (int64_t row = 0; row < rstd.size(); ++row) {
      std::vector<double> scaled(static_cast<size_t>(count)), normed(scaled), terms(scaled);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = row * count + i;
        normed[i] = InSingle(x.data[at] * rstd.data[row]);
        scaled[i] = InSingle(dy.data[at] * gamma.data[i]);
        terms[i] = InSingle(scaled[i] * normed[i]);
        dgamma.data[i] = InSingle(dgamma.data[i] + InSingle(dy.data[at] * normed[i]));
      }
      const double mean = InSingle(SumOf(terms.data(), count) / static_cast<double>(count));
      for (int64_t i = 0; i < count; ++i) {
        const double rest = InSingle(scaled[i] - InSingle(normed[i] * mean));
        dx.data[row * count + i] = InSingle(rstd.data[row] * rest);
      }
    }
    Write(dx, all[4]);
    Write(dgamma, all[5]);
  };
}

}  // namespace

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
