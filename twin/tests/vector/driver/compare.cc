#include "twin/tests/vector/driver/driver.h"

namespace vector_test {
namespace {

using namespace AscendC;

CMPMODE Mode(int64_t mode) { return static_cast<CMPMODE>(mode); }

// args: dst, src0, src1, mode, src0 block, src0 repeat, src1 block, src1 repeat
const Register kCompare("Compare", [](const Call& c) {
  WithType<half, float, int32_t>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    auto src0 = c.At<T>(1), src1 = c.At<T>(2);
    const BinaryRepeatParams params(1, c[4], c[6], 8, c[5], c[7]);
    if (c.form == kCount) {
      Compare(c.At<uint8_t>(0), src0, src1, Mode(c[3]), static_cast<uint32_t>(c.mask[0]));
      return;
    }
    WithMask(c, [&](auto mask, auto) {
      Compare(c.At<int8_t>(0), src0, src1, Mode(c[3]), mask, c.repeats, params);
    });
  });
});

// args: dst, src0, scalar, mode, block, repeat
template <typename F>
void Scalar(const Call& c, F compare) {
  WithType<half, float, int32_t>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    compare(c.At<uint8_t>(0), c.At<T>(1), c.Bits<T>(2));
  });
}
#define SCALAR(Name)                                                                             \
  const Register k##Name(#Name, [](const Call& c) {                                              \
    Scalar(c, [&](auto dst, auto src, auto value) {                                              \
      if (c.form == kCount) {                                                                    \
        Name(dst, src, value, Mode(c[3]), static_cast<uint32_t>(c.mask[0]));                     \
        return;                                                                                  \
      }                                                                                          \
      WithMask(c, [&](auto mask, auto) {                                                         \
        Name(dst, src, value, Mode(c[3]), mask, c.repeats, UnaryRepeatParams(1, c[4], 8, c[5])); \
      });                                                                                        \
    });                                                                                          \
  });
SCALAR(Compares)
SCALAR(CompareScalar)

// args: dst (128 bytes), src0, src1, mode, src0 block, src1 block, register before (low, high)
const Register kRegister("CompareToCmpMask", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    auto dst = c.At<uint64_t>(0);
    Duplicate(dst.template ReinterpretCast<uint32_t>(), uint32_t{0}, 32);
    PipeBarrier<PIPE_ALL>();
    dst.SetValue(0, static_cast<uint64_t>(c[6]));
    dst.SetValue(1, static_cast<uint64_t>(c[7]));
    PipeBarrier<PIPE_ALL>();
    SetCmpMask(dst);
    PipeBarrier<PIPE_V>();
    const BinaryRepeatParams params(1, c[4], c[5], 8, 8, 8);
    WithMask(c, [&](auto mask, auto set) {
      Compare<T, set.value>(c.At<T>(1), c.At<T>(2), Mode(c[3]), mask, params);
    });
    PipeBarrier<PIPE_V>();
    GetCmpMask(dst.template ReinterpretCast<uint32_t>());
  });
});

// args: dst, selMask, src0, src1 (or a scalar's bits), mode, then strides of dst, src0, src1
template <typename T, typename U>
void RunSelect(const Call& c) {
  auto dst = c.At<T>(0), src0 = c.At<T>(2);
  auto bits = c.At<U>(1);
  const auto mode = static_cast<SELMODE>(c[4]);
  const BinaryRepeatParams params(c[5], c[7], c[9], c[6], c[8], c[10]);
  if (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE) {
    const T value = c.Bits<T>(3);
    if (c.form == kCount) {
      Select(dst, bits, src0, value, mode, static_cast<uint32_t>(c.mask[0]));
      return;
    }
    WithMask(
        c, [&](auto mask, auto) { Select(dst, bits, src0, value, mode, mask, c.repeats, params); });
    return;
  }
  if (c.form == kCount) {
    Select(dst, bits, src0, c.At<T>(3), mode, static_cast<uint32_t>(c.mask[0]));
    return;
  }
  WithMask(c, [&](auto mask, auto) {
    Select(dst, bits, src0, c.At<T>(3), mode, mask, c.repeats, params);
  });
}
const Register kSelect("Select", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    if (c.types[1] == "uint8_t") RunSelect<T, uint8_t>(c);
    if (c.types[1] == "uint16_t") RunSelect<T, uint16_t>(c);
    if (c.types[1] == "uint32_t") RunSelect<T, uint32_t>(c);
    if (c.types[1] == "uint64_t") RunSelect<T, uint64_t>(c);
  });
});

// The forms without a mask argument. args as Select's, then the offset of a 32-byte scratch tensor.
const Register kSelectRegister("SelectFromCmpMask", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    auto dst = c.At<T>(0), src0 = c.At<T>(2);
    auto bits = c.At<uint8_t>(1);
    const auto mode = static_cast<SELMODE>(c[4]);
    const BinaryRepeatParams params(c[5], c[7], c[9], c[6], c[8], c[10]);
    SetVectorMask<T>(static_cast<int32_t>(c.mask[0]));
    if (mode == SELMODE::VSEL_CMPMASK_SPR) {
      SetCmpMask(bits);
      PipeBarrier<PIPE_V>();
      Select<T, SELMODE::VSEL_CMPMASK_SPR>(dst, src0, c.At<T>(3), c.repeats, params);
    } else if (mode == SELMODE::VSEL_TENSOR_SCALAR_MODE) {
      SetCmpMask(c.At<T>(3));
      PipeBarrier<PIPE_V>();
      Select(dst, bits, src0, c.repeats, params);
    } else {
      auto address = c.At<uint64_t>(11);
      address.SetValue(0, reinterpret_cast<uint64_t>(bits.GetPhyAddr()));
      address.SetValue(1, uint64_t{0});
      PipeBarrier<PIPE_ALL>();
      SetCmpMask(address);
      PipeBarrier<PIPE_V>();
      Select<T, SELMODE::VSEL_TENSOR_TENSOR_MODE>(dst, src0, c.At<T>(3), c.repeats, params);
      PipeBarrier<PIPE_ALL>();
      address.SetValue(0, uint64_t{0});
    }
    ResetMask();
  });
});

}  // namespace
}  // namespace vector_test
