// Filling, copying, gathering, casting.
#include "twin/tests/vector/driver/driver.h"

namespace vector_test {
namespace {

using namespace AscendC;

#define ANY16_32 int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float

// args: dst, block stride, repeat stride, value
const Register kDuplicate("Duplicate", [](const Call& c) {
  WithType<ANY16_32>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    auto dst = c.At<T>(0);
    const T value = c.Bits<T>(3);
    if (c.form == kCount) {
      Duplicate(dst, value, static_cast<int32_t>(c.mask[0]));
      return;
    }
    WithMask(c, [&](auto mask, auto set) {
      Duplicate<T, set.value>(dst, value, mask, c.repeats, c[1], c[2]);
    });
  });
});

// args: dst, src, dst block stride, dst repeat stride
const Register kBrcb("Brcb", [](const Call& c) {
  WithType<ANY16_32>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    Brcb(c.At<T>(0), c.At<T>(1), c.repeats, BrcbRepeatParams(c[2], c[3]));
  });
});

// args: dst, src, dst block, dst repeat, src block, src repeat
const Register kCopy("Copy", [](const Call& c) {
  WithType<ANY16_32>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    const CopyRepeatParams params(c[2], c[4], c[3], c[5]);
    WithMask(c, [&](auto mask, auto set) {
      Copy<T, set.value>(c.At<T>(0), c.At<T>(1), mask, c.repeats, params);
    });
  });
});

// args: dst, block stride, repeat stride, first value
const Register kCreateVecIndex("CreateVecIndex", [](const Call& c) {
  WithType<int16_t, half, int32_t, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    auto dst = c.At<T>(0);
    const T first = c.Bits<T>(3);
    if (c.form == kCount) {
      CreateVecIndex(dst, first, static_cast<uint32_t>(c.mask[0]));
      return;
    }
    WithMask(c, [&](auto mask, auto) { CreateVecIndex(dst, first, mask, c.repeats, c[1], c[2]); });
  });
});

// args: dst, src, offsets, base, dst repeat stride
const Register kGather("Gather", [](const Call& c) {
  WithType<ANY16_32>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    const uint32_t base = static_cast<uint32_t>(c[3]);
    if (c.form == kCount) {
      Gather(c.At<T>(0), c.At<T>(1), c.At<uint32_t>(2), base, static_cast<uint32_t>(c.mask[0]));
      return;
    }
    WithMask(c, [&](auto mask, auto) {
      Gather(c.At<T>(0), c.At<T>(1), c.At<uint32_t>(2), base, mask, c.repeats, c[4]);
    });
  });
});

// args: dst, src, offsets, dst block stride, dst repeat stride
const Register kGatherb("Gatherb", [](const Call& c) {
  WithType<uint16_t, uint32_t>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    Gatherb(c.At<T>(0), c.At<T>(1), c.At<uint32_t>(2), c.repeats, GatherRepeatParams(c[3], c[4]));
  });
});

// args: dst, src, pattern (a number, or the offset of a tensor), whether it is a tensor,
// reduceMode, mask, src block stride, repeats, src repeat stride, pattern repeat stride
const Register kGatherMask("GatherMask", [](const Call& c) {
  WithType<ANY16_32>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    using U = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    const GatherMaskParams params(c[6], c[7], c[8], c[9]);
    uint64_t kept = 0;
    if (c[3] != 0) {
      GatherMask(c.At<T>(0), c.At<T>(1), c.At<U>(2), c[4] != 0, static_cast<uint32_t>(c[5]), params,
                 kept);
    } else {
      GatherMask(c.At<T>(0), c.At<T>(1), static_cast<uint8_t>(c[2]), c[4] != 0,
                 static_cast<uint32_t>(c[5]), params, kept);
    }
    c.results[0] = static_cast<int64_t>(kept);
  });
});

// types: dst, src. args: dst, src, dst block, dst repeat, src block, src repeat, mode, deq scale
template <typename D, typename S>
void RunCast(const Call& c) {
  auto dst = c.At<D>(0);
  auto src = c.At<S>(1);
  const auto mode = static_cast<RoundMode>(c[6]);
  if (c[7] >= 0) SetDeqScale(c.Bits<half>(7));
  if (c.form == kCount) {
    Cast(dst, src, mode, static_cast<uint32_t>(c.mask[0]));
    return;
  }
  WithMask(c, [&](auto mask, auto set) {
    Cast<D, S, set.value>(dst, src, mode, mask, c.repeats,
                          UnaryRepeatParams(c[2], c[4], c[3], c[5]));
  });
}

template <typename D, typename... S>
bool CastFrom(const Call& c) {
  return ((c.types[1] == twin::TypeName<S>() ? (RunCast<D, S>(c), true) : false) || ...);
}

const Register kCast("Cast", [](const Call& c) {
  const std::string& to = c.types[0];
  const bool found =
      to == "half"         ? CastFrom<half, int4b_t, int8_t, uint8_t, int16_t, int32_t, float>(c)
      : to == "float"      ? CastFrom<float, half, bfloat16_t, int16_t, int32_t, int64_t, float>(c)
      : to == "int32_t"    ? CastFrom<int32_t, half, bfloat16_t, float, int64_t>(c)
      : to == "int16_t"    ? CastFrom<int16_t, half, int32_t, float>(c)
      : to == "int64_t"    ? CastFrom<int64_t, int32_t, float>(c)
      : to == "bfloat16_t" ? CastFrom<bfloat16_t, float>(c)
      : to == "int8_t"     ? CastFrom<int8_t, half>(c)
      : to == "uint8_t"    ? CastFrom<uint8_t, half>(c)
                           : CastFrom<int4b_t, half>(c);
  if (!found) throw std::invalid_argument("no case for this Cast");
});

}  // namespace
}  // namespace vector_test
