// Losses of rows of log-probabilities with a class for each.
#include <string>

#include "twin/cann/opapi/plan.h"
#include "twin/cann/opapi/rows.h"

using namespace twin::cann;

namespace {

constexpr Dtypes kClasses = kIndices | Only(ACL_UINT8);
enum Reduction : int64_t { kNone, kMean, kSum };

// The rows of a call, one where self has the classes alone.
struct Rows {
  int64_t count, classes;
};

Rows Check(Plan& plan, const aclTensor* self, const aclTensor* target, const aclTensor* weight,
           int64_t reduction) {
  plan.In("self", self, kFloats);
  plan.In("target", target, kClasses);
  plan.In("weight", weight, kFloats);
  const size_t rank = self->dims.size();
  if (rank != 1 && rank != 2) {
    Refuse("self must have one or two dimensions, got " + DescribeTensor(*self));
  }
  RequireDims("target", target, Dims(self->dims.begin(), self->dims.end() - 1));
  RequireDims("weight", weight, {self->dims.back()});
  RequireSameDtype("weight", weight, "self", self);
  if (reduction < kNone || reduction > kSum) {
    Refuse("reduction must be from 0 to 2, got " + std::to_string(reduction));
  }
  return {rank == 2 ? self->dims[0] : 1, self->dims.back()};
}

// A value for every row, or one for all.
void CheckLoss(const char* name, const aclTensor* loss, const Rows& rows, const aclTensor* self,
               int64_t reduction) {
  if (reduction == kNone && self->dims.size() == 2) return RequireDims(name, loss, {rows.count});
  if (loss->dims.size() > 1 || Product(loss->dims) != 1) RequireDims(name, loss, {1});
}

}  // namespace

ACLNN(NLLLoss, const aclTensor* self, const aclTensor* target, const aclTensor* weight,
      int64_t reduction, int64_t ignoreIndex, aclTensor* out, aclTensor* totalWeightOut)
PLAN({
  const Rows rows = Check(plan, self, target, weight, reduction);
  plan.Out("out", out, kFloats);
  plan.Out("totalWeightOut", totalWeightOut, kFloats);
  CheckLoss("out", out, rows, self, reduction);
  CheckLoss("totalWeightOut", totalWeightOut, rows, self, kSum);
  plan.compute = [rows, reduction, ignoreIndex](const Arguments& all) {
    const Values x = Read(all[0]), classes = Read(all[1]), weights = Read(all[2]);
    std::vector<double> losses(static_cast<size_t>(rows.count)), used(losses);
    for (int64_t row = 0; row < rows.count; ++row) {
      if (classes.data[row] == static_cast<double>(ignoreIndex)) continue;
      const int64_t place = CheckedIndex(classes.data[row], rows.classes);
      used[row] = weights.data[place];
      losses[row] = -InSingle(used[row] * x.data[row * rows.classes + place]);
    }
    Values loss(all[3].tensor.dims), total(all[4].tensor.dims);
    total.data[0] = SumOf(used.data(), rows.count);
    if (reduction == kNone) loss.data = losses;
    if (reduction != kNone) loss.data[0] = SumOf(losses.data(), rows.count);
    if (reduction == kMean) loss.data[0] = InSingle(loss.data[0] / total.data[0]);
    Write(loss, all[3]);
    Write(total, all[4]);
  };
});
ACLNN(NLLLossBackward, const aclTensor* gradOutput, const aclTensor* self, const aclTensor* target,
      const aclTensor* weight, int64_t reduction, int64_t ignoreIndex, const aclTensor* totalWeight,
      aclTensor* out)
PLAN({
  const Rows rows = Check(plan, self, target, weight, reduction);
  plan.In("gradOutput", gradOutput, kFloats);
  plan.In("totalWeight", totalWeight, kFloats);
  plan.Out("out", out, kFloats);
  CheckLoss("gradOutput", gradOutput, rows, self, reduction);
  CheckLoss("totalWeight", totalWeight, rows, self, kSum);
  for (const aclTensor* each : {gradOutput, totalWeight, static_cast<const aclTensor*>(out)}) {
    RequireSameDtype("gradOutput, totalWeight and out", each, "self", self);
  }
  RequireDims("out", out, self->dims);
  plan.compute = [rows, reduction, ignoreIndex](const Arguments& all) {
    const Values classes = Read(all[1]), weights = Read(all[2]), d = Read(all[3]);
    const double total = Read(all[4]).data[0];
    Values gradient(all[5].tensor.dims);
    for (int64_t row = 0; row < rows.count; ++row) {
      if (classes.data[row] == static_cast<double>(ignoreIndex)) continue;
      const int64_t place = CheckedIndex(classes.data[row], rows.classes);
      double change = -InSingle(weights.data[place] * d.data[reduction == kNone ? row : 0]);
      if (reduction == kMean) change = InSingle(change / total);
      gradient.data[row * rows.classes + place] = change;
    }
    Write(gradient, all[5]);
  };
});
