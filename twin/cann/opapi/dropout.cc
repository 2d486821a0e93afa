#include "twin/cann/opapi/dropout.h"

#include <cmath>
#include <random>

#include "twin/cann/opapi/plan.h"

namespace twin::cann {

std::vector<double> MaskOf(int64_t bytes, double dropped, int64_t seed, int64_t offset) {
  const auto word = [](int64_t value, int shift) {
    return static_cast<uint32_t>(static_cast<uint64_t>(value) >> shift);
  };
  std::seed_seq words{word(seed, 0), word(seed, 32), word(offset, 0), word(offset, 32)};
  std::mt19937_64 engine(words);
  std::vector<double> mask(static_cast<size_t>(bytes));
  for (double& byte : mask) {
    int bits = 0;
    for (int i = 0; i < 8; ++i) {
      const double drawn = std::ldexp(static_cast<double>(engine() >> 11), -53);
      bits |= static_cast<int>(drawn >= dropped) << i;
    }
    byte = bits;
  }
  return mask;
}

void Drop(Values* x, const Values& mask, double scale) {
  for (int64_t i = 0; i < x->size(); ++i) {
    const bool kept = ((static_cast<int>(mask.data[i / 8]) >> (i % 8)) & 1) != 0;
    x->data[i] = kept ? InSingle(x->data[i] * scale) : 0;
  }
}

}  // namespace twin::cann

using namespace twin::cann;

namespace {

void RequireShare(const char* name, double share) {
  if (share >= 0 && share <= 1) return;
  Refuse(std::string(name) + " must be from 0 to 1, got " + std::to_string(share));
}

void RequireMask(const char* name, const aclTensor* mask, int64_t elements) {
  const int64_t bytes = MaskBytes(elements);
  if (Product(mask->dims) == bytes) return;
  Refuse(std::string(name) + " must have " + std::to_string(bytes) + " bytes for " +
         std::to_string(elements) + " elements, got " + DescribeTensor(*mask));
}

}  // namespace

ACLNN(DropoutGenMaskV2, const aclIntArray* shape, double prob, int64_t seed, int64_t offset,
      aclDataType probDataType, aclTensor* out)
PLAN({
  plan.Out("out", out, Only(ACL_UINT8));
  if (!Has(kFloats, probDataType)) {
    Refuse("probDataType must be a float dtype, got " + NameOf(probDataType));
  }
  RequireShare("prob", prob);
  RequireMask("out", out, Product(Integers(shape)));
  plan.compute = [prob, seed, offset](const Arguments& all) {
    Values mask(all[0].tensor.dims);
    mask.data = MaskOf(mask.size(), prob, seed, offset);
    Write(mask, all[0]);
  };
});
ACLNN(DropoutDoMask, const aclTensor* self, const aclTensor* mask, double prob, aclTensor* out)
PLAN({
  plan.In("self", self, kFloats);
  plan.In("mask", mask, Only(ACL_UINT8));
  plan.Out("out", out, kFloats);
  RequireShare("prob", prob);
  RequireDims("out", out, self->dims);
  RequireMask("mask", mask, Product(self->dims));
  plan.compute = [prob](const Arguments& all) {
    Values x = Read(all[0]);
    Drop(&x, Read(all[1]), prob == 1 ? 0 : InSingle(1 / (1 - prob)));
    Write(x, all[2]);
  };
});
