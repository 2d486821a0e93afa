// Matrix products.
#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

// Of the last two dimensions, the others broadcast; a vector is a row on the left and a column on
// the right.
Values Multiply(Values a, Values b) {
  const bool row = a.dims.size() == 1, column = b.dims.size() == 1;
  if (row) a.dims.insert(a.dims.begin(), 1);
  if (column) b.dims.push_back(1);
  const int64_t m = a.dims[a.dims.size() - 2], k = a.dims.back(), n = b.dims.back();
  const Dims lead =
      BroadcastDims(Dims(a.dims.begin(), a.dims.end() - 2), Dims(b.dims.begin(), b.dims.end() - 2));
  const auto whole = [&](int64_t rows, int64_t columns) {
    Dims dims = lead;
    dims.insert(dims.end(), {rows, columns});
    return dims;
  };
  const Values x = Broadcast(a, whole(m, k));
  const Values y = Broadcast(b, whole(k, n));
  Values result(whole(m, n));
  for (int64_t batch = 0; batch < Product(lead); ++batch) {
    for (int64_t i = 0; i < m; ++i) {
      double* to = result.data.data() + (batch * m + i) * n;
      for (int64_t p = 0; p < k; ++p) {
        const double factor = x.data[(batch * m + i) * k + p];
        const double* from = y.data.data() + (batch * k + p) * n;
        for (int64_t j = 0; j < n; ++j) to[j] += factor * from[j];
      }
    }
  }
  if (column) result.dims.pop_back();
  if (row) result.dims.erase(result.dims.end() - (column ? 1 : 2));
  return result;
}

void Product2(Plan& plan, const aclTensor* self, const aclTensor* other, const aclTensor* out,
              size_t least, size_t most) {
  plan.In("self", self);
  plan.In("mat2", other);
  plan.Out("out", out);
  RequireFloating({self, other, out});
  if (self->dtype != other->dtype) Refuse("both factors must have one dtype");
  for (const aclTensor* each : {self, other}) {
    if (each->dims.size() < least || each->dims.size() > most) Refuse("the rank of a factor");
  }
  const size_t rank = other->dims.size();
  if (self->dims.back() != other->dims[rank == 1 ? 0 : rank - 2]) {
    Refuse("the factors do not go together");
  }
  plan.compute = [](const Arguments& all) { Write(Multiply(Read(all[0]), Read(all[1])), all[2]); };
}

}  // namespace

ACLNN(Mm, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t)
PLAN({ Product2(plan, self, mat2, out, 2, 2); });
ACLNN(BatchMatMul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t)
PLAN({ Product2(plan, self, mat2, out, 3, 3); });
ACLNN(Matmul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t)
PLAN({ Product2(plan, self, mat2, out, 1, 8); });
ACLNN(Addmm, const aclTensor* self, const aclTensor* mat1, const aclTensor* mat2,
      const aclScalar* beta, const aclScalar* alpha, aclTensor* out, int8_t)
PLAN({
  Product2(plan, mat1, mat2, out, 2, 2);
  plan.In("self", self);
  plan.compute = [b = Number(beta), a = Number(alpha)](const Arguments& all) {
    Values product = Multiply(Read(all[0]), Read(all[1]));
    const Values added = Broadcast(Read(all[2]), product.dims);
    for (size_t i = 0; i < product.data.size(); ++i) {
      product.data[i] = a * product.data[i] + b * added.data[i];
    }
    Write(product, all[3]);
  };
});
