#include "twin/tests/vector/driver/driver.h"

namespace vector_test {
namespace {

using namespace AscendC;

// A mask as the reductions take it: int32_t or const uint64_t*.
inline int32_t ReduceMask(uint64_t lanes) { return static_cast<int32_t>(lanes); }
inline const uint64_t* ReduceMask(uint64_t* bits) { return bits; }

// args: dst, src, dst repeat, src block, src repeat
template <ReduceType type>
void DataBlock(const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    WithMask(c, [&](auto mask, auto set) {
      ReduceDataBlock<type, T, T, set.value>(c.At<T>(0), c.At<T>(1), ReduceMask(mask), c.repeats,
                                             c[2], c[3], c[4]);
    });
  });
}
const Register kBlockSum("ReduceDataBlock<SUM>", DataBlock<ReduceType::SUM>);
const Register kBlockMax("ReduceDataBlock<MAX>", DataBlock<ReduceType::MAX>);
const Register kBlockMin("ReduceDataBlock<MIN>", DataBlock<ReduceType::MIN>);

template <ReduceType type>
void Repeat(const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    WithMask(c, [&](auto mask, auto set) {
      ReduceRepeat<type, T, T, set.value>(c.At<T>(0), c.At<T>(1), ReduceMask(mask), c.repeats, c[2],
                                          c[3], c[4], static_cast<ReduceOrder>(c[5]));
    });
  });
}
const Register kRepeatSum("ReduceRepeat<SUM>", Repeat<ReduceType::SUM>);
const Register kRepeatMax("ReduceRepeat<MAX>", Repeat<ReduceType::MAX>);
const Register kRepeatMin("ReduceRepeat<MIN>", Repeat<ReduceType::MIN>);

const Register kPair("ReducePairElem", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    WithMask(c, [&](auto mask, auto set) {
      ReducePairElem<ReduceType::SUM, T, T, set.value>(c.At<T>(0), c.At<T>(1), ReduceMask(mask),
                                                       c.repeats, c[2], c[3], c[4]);
    });
  });
});

// The older names.
#define BLOCKWISE(Name)                                                                            \
  const Register k##Name(#Name, [](const Call& c) {                                                \
    WithType<half, float>(c.types[0], [&](auto tag) {                                              \
      using T = decltype(tag);                                                                     \
      WithMask(c, [&](auto mask, auto set) {                                                       \
        Name<T, set.value>(c.At<T>(0), c.At<T>(1), c.repeats, ReduceMask(mask), c[2], c[3], c[4]); \
      });                                                                                          \
    });                                                                                            \
  });
BLOCKWISE(BlockReduceSum)
BLOCKWISE(BlockReduceMax)
BLOCKWISE(BlockReduceMin)
BLOCKWISE(PairReduceSum)

#define WHOLE(Name)                                                                         \
  const Register k##Name(#Name, [](const Call& c) {                                         \
    WithType<half, float>(c.types[0], [&](auto tag) {                                       \
      using T = decltype(tag);                                                              \
      WithMask(c, [&](auto mask, auto set) {                                                \
        Name<T, set.value>(c.At<T>(0), c.At<T>(1), ReduceMask(mask), c.repeats, c[2], c[3], \
                           c[4] ORDER);                                                     \
      });                                                                                   \
    });                                                                                     \
  });
#define ORDER
WHOLE(WholeReduceSum)
#undef ORDER
#define ORDER , static_cast<ReduceOrder>(c[5])
WHOLE(WholeReduceMax)
WHOLE(WholeReduceMin)
#undef ORDER

const Register kRepeatReduceSum("RepeatReduceSum", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    RepeatReduceSum(c.At<T>(0), c.At<T>(1), c.repeats, static_cast<int32_t>(c.mask[0]), 1, c[3],
                    c[2], c[4]);
  });
});

// args: dst, src, tmp, src repeat stride, calIndex
const Register kReduceSum("ReduceSum", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    if (c.form == kCount) {
      ReduceSum(c.At<T>(0), c.At<T>(1), c.At<T>(2), static_cast<int32_t>(c.mask[0]));
      c.results[0] = static_cast<int64_t>(twin::ScalarBits(GetAccVal<T>()));
      return;
    }
    WithMask(c, [&](auto mask, auto) {
      ReduceSum(c.At<T>(0), c.At<T>(1), c.At<T>(2), ReduceMask(mask), c.repeats, c[3]);
    });
  });
});

#define EXTREME(Name)                                                                           \
  const Register k##Name(#Name, [](const Call& c) {                                             \
    WithType<half, float>(c.types[0], [&](auto tag) {                                           \
      using T = decltype(tag);                                                                  \
      if (c.form == kCount) {                                                                   \
        Name(c.At<T>(0), c.At<T>(1), c.At<T>(2), static_cast<int32_t>(c.mask[0]), c[4] != 0);   \
        return;                                                                                 \
      }                                                                                         \
      WithMask(c, [&](auto mask, auto) {                                                        \
        Name(c.At<T>(0), c.At<T>(1), c.At<T>(2), ReduceMask(mask), c.repeats, c[3], c[4] != 0); \
      });                                                                                       \
    });                                                                                         \
  });
EXTREME(ReduceMax)
EXTREME(ReduceMin)

// args: dst, src. The extreme of all repeats and its index, from the register.
const Register kSpr("GetReduceRepeatMaxMinSpr", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    ReduceRepeat<ReduceType::MAX, T, T>(c.At<T>(0), c.At<T>(1), static_cast<int32_t>(c.mask[0]),
                                        c.repeats, 1, 1, 8);
    const auto id = GetTPipePtr()->FetchEventID(HardEvent::V_S);
    SetFlag<HardEvent::V_S>(id);
    WaitFlag<HardEvent::V_S>(id);
    T value, index;
    GetReduceRepeatMaxMinSpr(value, index);
    c.results[0] = static_cast<int64_t>(twin::ScalarBits(value));
    c.results[1] = static_cast<int64_t>(twin::ScalarBits(index));
  });
});

}  // namespace
}  // namespace vector_test
