// args: operand offsets, then per operand (block stride, repeat stride), then scalars.
#include "twin/tests/vector/driver/driver.h"

namespace vector_test {
namespace {

using namespace AscendC;

BinaryRepeatParams BinaryParams(const Call& c) {
  return BinaryRepeatParams(c[3], c[5], c[7], c[4], c[6], c[8]);
}
UnaryRepeatParams UnaryParams(const Call& c) { return UnaryRepeatParams(c[2], c[4], c[3], c[5]); }

#define BINARY(Name, ...)                                                      \
  const Register k##Name(#Name, [](const Call& c) {                            \
    WithType<__VA_ARGS__>(c.types[0], [&](auto tag) {                          \
      using T = decltype(tag);                                                 \
      auto dst = c.At<T>(0), src0 = c.At<T>(1), src1 = c.At<T>(2);             \
      if (c.form == kCount) {                                                  \
        Name(dst, src0, src1, static_cast<int32_t>(c.mask[0]));                \
        return;                                                                \
      }                                                                        \
      WithMask(c, [&](auto mask, auto set) {                                   \
        Name<T, set.value>(dst, src0, src1, mask, c.repeats, BinaryParams(c)); \
      });                                                                      \
    });                                                                        \
  });
#define UNARY(Name, ...)                                               \
  const Register k##Name(#Name, [](const Call& c) {                    \
    WithType<__VA_ARGS__>(c.types[0], [&](auto tag) {                  \
      using T = decltype(tag);                                         \
      auto dst = c.At<T>(0), src = c.At<T>(1);                         \
      if (c.form == kCount) {                                          \
        Name(dst, src, static_cast<int32_t>(c.mask[0]));               \
        return;                                                        \
      }                                                                \
      WithMask(c, [&](auto mask, auto set) {                           \
        Name<T, set.value>(dst, src, mask, c.repeats, UnaryParams(c)); \
      });                                                              \
    });                                                                \
  });
#define SCALAR(Name, ...)                                                     \
  const Register k##Name(#Name, [](const Call& c) {                           \
    WithType<__VA_ARGS__>(c.types[0], [&](auto tag) {                         \
      using T = decltype(tag);                                                \
      auto dst = c.At<T>(0), src = c.At<T>(1);                                \
      const T value = c.Bits<T>(6);                                           \
      if (c.form == kCount) {                                                 \
        Name(dst, src, value, static_cast<int32_t>(c.mask[0]));               \
        return;                                                               \
      }                                                                       \
      WithMask(c, [&](auto mask, auto set) {                                  \
        Name<T, set.value>(dst, src, value, mask, c.repeats, UnaryParams(c)); \
      });                                                                     \
    });                                                                       \
  });

BINARY(Add, half, float, int16_t, int32_t)
BINARY(Sub, half, float, int16_t, int32_t)
BINARY(Mul, half, float, int16_t, int32_t)
BINARY(Max, half, float, int16_t, int32_t)
BINARY(Min, half, float, int16_t, int32_t)
BINARY(Div, half, float)
BINARY(And, int16_t, uint16_t)
BINARY(Or, int16_t, uint16_t)
BINARY(AddRelu, half, float, int16_t)
BINARY(SubRelu, half, float, int16_t)
BINARY(FusedMulAdd, half, float)
BINARY(MulAddRelu, half, float)
UNARY(Exp, half, float)
UNARY(Ln, half, float)
UNARY(Abs, half, float)
UNARY(Sqrt, half, float)
UNARY(Rsqrt, half, float)
UNARY(Reciprocal, half, float)
UNARY(Relu, half, float, int32_t)
UNARY(Not, int16_t, uint16_t)
SCALAR(Adds, half, float, int16_t, int32_t)
SCALAR(Muls, half, float, int16_t, int32_t)
SCALAR(Maxs, half, float, int16_t, int32_t)
SCALAR(Mins, half, float, int16_t, int32_t)
SCALAR(LeakyRelu, half, float)
SCALAR(ShiftLeft, int16_t, uint16_t, int32_t, uint32_t)

const Register kShiftRight("ShiftRight", [](const Call& c) {
  WithType<int16_t, uint16_t, int32_t, uint32_t>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    auto dst = c.At<T>(0), src = c.At<T>(1);
    const T value = c.Bits<T>(6);
    if (c.form == kCount) {
      ShiftRight(dst, src, value, static_cast<int32_t>(c.mask[0]));
      return;
    }
    WithMask(c, [&](auto mask, auto set) {
      if (c[7] != 0) {
        ShiftRight<T, set.value>(dst, src, value, mask, c.repeats, UnaryParams(c), true);
      } else {
        ShiftRight<T, set.value>(dst, src, value, mask, c.repeats, UnaryParams(c));
      }
    });
  });
});

// Calls f(D(), S()) for the three pairs of MulAddDst and Axpy.
template <typename F>
void WithMulAddTypes(const Call& c, F f) {
  if (c.types[0] == "half") {
    f(half(), half());
  } else if (c.types[1] == "float") {
    f(float(), float());
  } else {
    f(float(), half());
  }
}

const Register kMulAddDst("MulAddDst", [](const Call& c) {
  WithMulAddTypes(c, [&](auto d, auto s) {
    using D = decltype(d);
    using S = decltype(s);
    auto dst = c.At<D>(0);
    auto src0 = c.At<S>(1), src1 = c.At<S>(2);
    if (c.form == kCount) {
      MulAddDst(dst, src0, src1, static_cast<int32_t>(c.mask[0]));
      return;
    }
    WithMask(c, [&](auto mask, auto set) {
      MulAddDst<D, S, set.value>(dst, src0, src1, mask, c.repeats, BinaryParams(c));
    });
  });
});

const Register kAxpy("Axpy", [](const Call& c) {
  WithMulAddTypes(c, [&](auto d, auto s) {
    using D = decltype(d);
    using S = decltype(s);
    auto dst = c.At<D>(0);
    auto src = c.At<S>(1);
    const S value = c.Bits<S>(6);
    if (c.form == kCount) {
      Axpy(dst, src, value, static_cast<int32_t>(c.mask[0]));
      return;
    }
    WithMask(c, [&](auto mask, auto set) {
      Axpy<D, S, set.value>(dst, src, value, mask, c.repeats, UnaryParams(c));
    });
  });
});

}  // namespace
}  // namespace vector_test
