// Dropout by type: a mask of bits, and its application.
#include <map>
#include <mutex>
#include <random>

#include "twin/cann/opapi/aclop.h"
#include "twin/cann/opapi/dropout.h"
#include "twin/cann/opapi/plan.h"

namespace twin::cann {

namespace {

// One number from 0 to 1, of an input whose value may not be known yet.
void RequireShare(const Inputs& in, size_t i, Dtypes allowed) {
  Require(in, i, allowed);
  if (Product(in[i].dims) != 1) {
    Refuse("input " + std::to_string(i) + " must be one number, got " + Text(in[i]));
  }
  if (in[i].values == nullptr) return;
  const double share = in[i].values->data[0];
  if (share >= 0 && share <= 1) return;
  Refuse("input " + std::to_string(i) + " must be from 0 to 1, got " + std::to_string(share));
}

// Masks of one pair of seeds follow one another; without seeds a process begins anywhere.
std::pair<int64_t, int64_t> NextOf(int64_t seed, int64_t seed2) {
  static std::mutex mutex;
  static std::map<std::pair<int64_t, int64_t>, int64_t> calls;
  static const int64_t start = std::random_device()();
  const std::lock_guard<std::mutex> lock(mutex);
  const int64_t call = calls[{seed, seed2}]++;
  if (seed == 0 && seed2 == 0) return {start, call};
  return {seed, (seed2 << 32) + call};
}

// Inputs: a shape, and with which probability a bit is 1.
OperatorType Mask() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    RequireShare(in, 1, kFloats);
    return Inputs{{ACL_UINT8, {MaskBytes(Product(Known(in, 0)))}}};
  };
  const auto loop = [](const Tensors& in, const Attributes& attrs, const Inputs& out) -> Tensors {
    Values mask(out[0].dims);
    const auto [seed, offset] = NextOf(attrs.Integer("seed"), attrs.Integer("seed2"));
    mask.data = MaskOf(mask.size(), 1 - in[1].data[0], seed, offset);
    return {mask};
  };
  return {2, 2, {{"seed", int64_t{0}}, {"seed2", int64_t{0}}}, infer, loop};
}

// Inputs: x, a mask, and the probability with which its bits are 1.
OperatorType Apply() {
  const auto infer = [](const Inputs& in, const Attributes&, size_t) {
    Require(in, 0, kFloats);
    Require(in, 1, Only(ACL_UINT8));
    RequireShape(in, 1, {MaskBytes(Product(in[0].dims))});
    RequireShare(in, 2, Only(in[0].dtype));
    return Inputs{{in[0].dtype, in[0].dims}};
  };
  const auto loop = [](const Tensors& in, const Attributes&, const Inputs&) -> Tensors {
    Values x = in[0];
    Drop(&x, in[1], InSingle(1 / in[2].data[0]));
    return {x};
  };
  return {3, 3, {}, infer, loop};
}

}  // namespace

void AddDropout(OperatorTypes* types) {
  OperatorTypes& all = *types;
  all["DropOutGenMask"] = Mask();
  all["DropOutDoMask"] = Apply();
}

}  // namespace twin::cann
