// Sorting and transposing.
#include "twin/tests/vector/driver/driver.h"

namespace vector_test {
namespace {

using namespace AscendC;

// args: dst, scores, indices
const Register kSort32("Sort32", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    Sort32(c.At<T>(0), c.At<T>(1), c.At<uint32_t>(2), static_cast<int32_t>(c.repeats));
  });
});

// args: dst, four lists, four lengths, validBit, suspension
const Register kMrgSort("MrgSort", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    const MrgSortSrcList<T> lists(c.At<T>(1), c.At<T>(2), c.At<T>(3), c.At<T>(4));
    uint16_t lengths[4];
    for (int i = 0; i < 4; ++i) lengths[i] = static_cast<uint16_t>(c[5 + i]);
    const MrgSort4Info info(lengths, c[10] != 0, static_cast<uint16_t>(c[9]), c.repeats);
    MrgSort(c.At<T>(0), lists, info);
    if (c[10] == 0) return;
    const auto id = GetTPipePtr()->FetchEventID(HardEvent::V_S);
    SetFlag<HardEvent::V_S>(id);
    WaitFlag<HardEvent::V_S>(id);
    uint16_t taken[4];
    GetMrgSortResult(taken[0], taken[1], taken[2], taken[3]);
    for (int i = 0; i < 4; ++i) c.results[i] = taken[i];
  });
});

// args as MrgSort: the form that returns the numbers at once.
const Register kMrgSortCounts("MrgSortCounts", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    const MrgSortSrcList<T> lists(c.At<T>(1), c.At<T>(2), c.At<T>(3), c.At<T>(4));
    uint16_t lengths[4];
    uint32_t taken[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; ++i) lengths[i] = static_cast<uint16_t>(c[5 + i]);
    MrgSort<T, true>(c.At<T>(0), lists, lengths, taken, static_cast<uint16_t>(c[9]), 1);
    for (int i = 0; i < 4; ++i) c.results[i] = taken[i];
  });
});

// args: dst, scores, indices, tmp, values, sorted indices
const Register kSort("Sort", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    LocalTensor<T> concat, tmp = c.At<T>(3);
    const int32_t repeats = static_cast<int32_t>(c.repeats);
    Concat(concat, c.At<T>(1), tmp, repeats);
    Sort<T, true>(c.At<T>(0), concat, c.At<uint32_t>(2), tmp, repeats);
    PipeBarrier<PIPE_V>();
    Extract(c.At<T>(4), c.At<uint32_t>(5), c.At<T>(0), repeats);
    c.results[0] = GetSortLen<T>(32);
    c.results[1] = GetSortOffset<T>(7);
  });
});

// args: dst, src
const Register kTranspose("Transpose", [](const Call& c) {
  WithType<int16_t, uint16_t, half>(c.types[0], [&](auto tag) {
    using T = decltype(tag);
    Transpose(c.At<T>(0), c.At<T>(1));
  });
});

// args: dst, src, tmp, n, c, h, w, type
const Register kTransposeExt("TransposeImages", [](const Call& c) {
  WithType<int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>(
      c.types[0], [&](auto tag) {
        using T = decltype(tag);
        const TransposeParamsExt params(static_cast<uint16_t>(c[3]), static_cast<uint16_t>(c[4]),
                                        static_cast<uint16_t>(c[5]), static_cast<uint16_t>(c[6]),
                                        static_cast<TransposeType>(c[7]));
        Transpose(c.At<T>(0), c.At<T>(1), c.At<uint8_t>(2), params);
        // The scratch ends the image, which is copied out.
        PipeBarrier<PIPE_V>();
        const auto words = c.At<uint16_t>(2);
        Duplicate(words, uint16_t{0}, static_cast<int32_t>(words.GetSize()));
      });
});

// args: how the lists are given, dst high half, src high half, dst repeat, src repeat, 16
// destinations, 16 sources, two tensors of 16 addresses
const Register kTransData("TransDataTo5HD", [](const Call& c) {
  WithType<int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float>(
      c.types[0], [&](auto tag) {
        using T = decltype(tag);
        const TransDataTo5HDParams params(c[1] != 0, c[2] != 0, c.repeats, c[3], c[4]);
        LocalTensor<T> dst[16], src[16];
        uint64_t to[16], from[16];
        for (size_t i = 0; i < 16; ++i) {
          dst[i] = c.At<T>(5 + i);
          src[i] = c.At<T>(21 + i);
          to[i] = reinterpret_cast<uint64_t>(dst[i].GetPhyAddr());
          from[i] = reinterpret_cast<uint64_t>(src[i].GetPhyAddr());
        }
        if (c[0] == 0) {
          TransDataTo5HD(dst, src, params);
        } else if (c[0] == 1) {
          TransDataTo5HD<T>(to, from, params);
        } else {
          auto to_list = c.At<uint64_t>(37), from_list = c.At<uint64_t>(38);
          for (uint32_t i = 0; i < 16; ++i) {
            to_list.SetValue(i, to[i]);
            from_list.SetValue(i, from[i]);
          }
          TransDataTo5HD<T>(to_list, from_list, params);
          PipeBarrier<PIPE_ALL>();
          Duplicate(to_list.template ReinterpretCast<uint32_t>(), uint32_t{0}, 32);
          Duplicate(from_list.template ReinterpretCast<uint32_t>(), uint32_t{0}, 32);
        }
      });
});

}  // namespace
}  // namespace vector_test
