// Steps of optimizers that are aclnn functions.
#include <cmath>

#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

ACLNN(ApplyAdamWV2, aclTensor* varRef, aclTensor* mRef, aclTensor* vRef,
      aclTensor* maxGradNormOptionalRef, const aclTensor* grad, const aclTensor* step, float lr,
      float beta1, float beta2, float weightDecay, float eps, bool amsgrad, bool maximize)
PLAN({
  plan.InOut("varRef", varRef, kFloats);
  plan.InOut("mRef", mRef, kFloats);
  plan.InOut("vRef", vRef, kFloats);
  if (amsgrad) plan.InOut("maxGradNormOptionalRef", maxGradNormOptionalRef, kFloats);
  plan.In("grad", grad, kFloats);
  plan.In("step", step, Only(ACL_INT64) | Only(ACL_FLOAT));
  for (const twin::HostTensor& each : plan.inputs) {
    if (each.tensor == step) continue;
    RequireDims(each.name, each.tensor, varRef->dims);
    RequireSameDtype(each.name, each.tensor, "varRef", varRef);
  }
  if (Product(step->dims) != 1) Refuse("step must be one number, got " + DescribeTensor(*step));
  plan.compute = [=](const Arguments& all) {
    const size_t states = amsgrad ? 4 : 3;
    Values weight = Read(all[0]), first = Read(all[1]), second = Read(all[2]);
    Values most = amsgrad ? Read(all[3]) : Values();
    const Values gradient = Read(all[states]);
    // CANN's kernel counts the steps from 0.
    const double t = Read(all[states + 1]).data[0] + 1;
    const double left1 = InSingle(1 - InSingle(std::pow(double{beta1}, t)));
    const double root2 = InSingle(std::sqrt(InSingle(1 - InSingle(std::pow(double{beta2}, t)))));
    for (size_t i = 0; i < weight.data.size(); ++i) {
      const double d = maximize ? -gradient.data[i] : gradient.data[i];
      double &m = first.data[i], &v = second.data[i], &w = weight.data[i];
      m = InSingle(InSingle(beta1 * m) + InSingle(InSingle(1 - double{beta1}) * d));
      const double square = InSingle(d * d);
      v = InSingle(InSingle(beta2 * v) + InSingle(InSingle(1 - double{beta2}) * square));
      double spread = v;
      if (amsgrad) spread = most.data[i] = std::fmax(most.data[i], v);
      const double root = InSingle(InSingle(InSingle(std::sqrt(spread)) / root2) + eps);
      const double change = InSingle(InSingle(m / left1) / root);
      const double decayed = InSingle(w * InSingle(1 - InSingle(double{lr} * weightDecay)));
      w = InSingle(decayed - InSingle(lr * change));
    }
    Write(weight, all[states + 2]);
    Write(first, all[states + 3]);
    Write(second, all[states + 4]);
    if (amsgrad) Write(most, all[states + 5]);
  };
});
