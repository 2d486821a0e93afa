// Matrix products.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "twin/cann/opapi/plan.h"

using namespace twin::cann;

namespace {

// cubeMathType: how the cube takes float32, which the other dtypes do not change.
enum CubeMathType : int8_t { kKeep, kAllowLess, kHalf, kHf32 };

// A float with the 11 bits of mantissa that HF32 has, rounded to the nearest, ties to even.
double InHf32(double value) {
  const auto single = static_cast<float>(value);
  if (!std::isfinite(single)) return single;
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof(bits));
  constexpr uint32_t kCut = 12;
  bits += (1u << (kCut - 1)) - 1 + ((bits >> kCut) & 1);
  bits &= ~((1u << kCut) - 1);
  float rounded;
  std::memcpy(&rounded, &bits, sizeof(rounded));
  return rounded;
}

Values Operand(const KernelArgument& argument, int8_t cube) {
  Values values = Read(argument);
  if (argument.tensor.dtype != ACL_FLOAT || cube == kKeep || KeepsDoubles()) return values;
  for (double& value : values.data) {
    value = cube == kHalf ? RoundTo(value, ACL_FLOAT16) : InHf32(value);
  }
  return values;
}

// The shapes of a product: factors as matrices, the batch that theirs are broadcast to.
struct Shapes {
  Dims a, b, lead, out;
  bool row, column;  // whether a factor is a vector
};

Shapes ShapesOf(Dims a, Dims b) {
  Shapes shapes;
  shapes.row = a.size() == 1;
  shapes.column = b.size() == 1;
  if (shapes.row) a.insert(a.begin(), 1);
  if (shapes.column) b.push_back(1);
  if (a.back() != b[b.size() - 2]) {
    Refuse("self has " + std::to_string(a.back()) + " columns, mat2 " +
           std::to_string(b[b.size() - 2]) + " rows");
  }
  shapes.lead = BroadcastDims(Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2));
  shapes.out = shapes.lead;
  if (!shapes.row) shapes.out.push_back(a[a.size() - 2]);
  if (!shapes.column) shapes.out.push_back(b.back());
  shapes.a = a;
  shapes.b = b;
  return shapes;
}

// The cube multiplies exactly and adds in float32, along the rows of mat2.
template <class Sum>
Values Multiply(Values a, Values b) {
  const Shapes shapes = ShapesOf(a.dims, b.dims);
  a.dims = shapes.a;
  b.dims = shapes.b;
  const int64_t m = a.dims[a.dims.size() - 2], k = a.dims.back(), n = b.dims.back();
  const auto whole = [&](int64_t rows, int64_t columns) {
    Dims dims = shapes.lead;
    dims.insert(dims.end(), {rows, columns});
    return dims;
  };
  const Values x = Broadcast(a, whole(m, k));
  const Values y = Broadcast(b, whole(k, n));
  Values result(shapes.out);
  std::vector<Sum> sums(static_cast<size_t>(n));
  for (int64_t batch = 0; batch < Product(shapes.lead); ++batch) {
    for (int64_t i = 0; i < m; ++i) {
      std::fill(sums.begin(), sums.end(), Sum{0});
      for (int64_t p = 0; p < k; ++p) {
        const double factor = x.data[(batch * m + i) * k + p];
        const double* from = y.data.data() + (batch * k + p) * n;
        for (int64_t j = 0; j < n; ++j) sums[j] += static_cast<Sum>(factor * from[j]);
      }
      std::copy(sums.begin(), sums.end(), result.data.begin() + (batch * m + i) * n);
    }
  }
  return result;
}

Values ProductOf(const Arguments& all, int8_t cube) {
  Values a = Operand(all[0], cube), b = Operand(all[1], cube);
  return KeepsDoubles() ? Multiply<double>(std::move(a), std::move(b))
                        : Multiply<float>(std::move(a), std::move(b));
}

void Check(Plan& plan, const aclTensor* self, const aclTensor* other, const aclTensor* out,
           size_t least, size_t most, int8_t cube) {
  plan.In("self", self, kFloats);
  plan.In("mat2", other, kFloats);
  plan.Out("out", out, kFloats);
  RequireSameDtype("mat2", other, "self", self);
  RequireSameDtype("out", out, "self", self);
  for (const aclTensor* each : {self, other}) {
    const size_t rank = each->dims.size();
    if (rank >= least && rank <= most) continue;
    Refuse("a factor must have " + std::to_string(least) + " to " + std::to_string(most) +
           " dimensions, got " + DescribeTensor(*each));
  }
  if (cube < kKeep || cube > kHf32) {
    Refuse("cubeMathType must be from 0 to 3, got " + std::to_string(cube));
  }
  if (cube == kHalf && self->dtype == ACL_BF16) Refuse("cubeMathType 2 does not take bfloat16");
  if (cube == kHf32 && self->dtype != ACL_FLOAT) {
    Refuse("cubeMathType 3 takes float32, got " + NameOf(self->dtype));
  }
}

void MatrixProduct(Plan& plan, const aclTensor* self, const aclTensor* other, const aclTensor* out,
                   size_t least, size_t most, int8_t cube) {
  Check(plan, self, other, out, least, most, cube);
  RequireDims("out", out, ShapesOf(self->dims, other->dims).out);
  plan.compute = [cube](const Arguments& all) { Write(ProductOf(all, cube), all[2]); };
}

}  // namespace

ACLNN(Mm, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType)
PLAN({ MatrixProduct(plan, self, mat2, out, 2, 2, cubeMathType); });
ACLNN(BatchMatMul, const aclTensor* self, const aclTensor* mat2, aclTensor* out,
      int8_t cubeMathType)
PLAN({ MatrixProduct(plan, self, mat2, out, 3, 3, cubeMathType); });
ACLNN(Matmul, const aclTensor* self, const aclTensor* mat2, aclTensor* out, int8_t cubeMathType)
PLAN({ MatrixProduct(plan, self, mat2, out, 1, 6, cubeMathType); });
ACLNN(Addmm, const aclTensor* self, const aclTensor* mat1, const aclTensor* mat2,
      const aclScalar* beta, const aclScalar* alpha, aclTensor* out, int8_t cubeMathType)
PLAN({
  Check(plan, mat1, mat2, out, 2, 2, cubeMathType);
  plan.In("self", self, kFloats);
  const Dims dims = ShapesOf(mat1->dims, mat2->dims).out;
  RequireDims("out", out, dims);
  if (BroadcastDims(self->dims, dims) != dims) {
    Refuse("self cannot be broadcast to out: " + DescribeTensor(*self));
  }
  plan.compute = [b = InSingle(Number(beta)), a = InSingle(Number(alpha)),
                  cubeMathType](const Arguments& all) {
    Values product = ProductOf(all, cubeMathType);
    const Values added = Broadcast(Read(all[2]), product.dims);
    const aclDataType dtype = all[3].tensor.dtype;
    for (size_t i = 0; i < product.data.size(); ++i) {
      // The product is an operator of its own, whose result is of the tensors' dtype.
      const double scaled = InSingle(a * RoundTo(product.data[i], dtype));
      product.data[i] = InSingle(scaled + InSingle(b * added.data[i]));
    }
    Write(product, all[3]);
  };
});
