// Progressions, logarithms, Silu, Sigmoid, reductions and running sums of a matrix, transposition
// and dropout.
#include "twin/tests/vector/driver/driver.h"

namespace vector_test {
namespace {

using namespace AscendC;

// The bytes that an API leaves in its temporary space, to the end of the image, are not specified.
void ClearFrom(const Call& c, size_t index) {
  if (c[index] < 0) return;
  PipeBarrier<PIPE_V>();
  const auto words = c.At<uint16_t>(index);
  Duplicate(words, uint16_t{0}, static_cast<int32_t>(words.GetSize()));
}

uint32_t Number(const Call& c, size_t index) { return static_cast<uint32_t>(c[index]); }

// args: older name, dst, first, difference, count
const Register kArange("Arange", [](const Call& c) {
  WithType<int16_t, half, int32_t, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    const auto run = c[0] != 0 ? ArithProgression<T> : Arange<T>;
    run(c.At<T>(1), c.Bits<T>(2), c.Bits<T>(3), static_cast<int32_t>(c[4]), twin::Here());
    SetMaskNorm();
    ResetMask();
  });
});

// args: base (0 is e), tmp or -1, dst, src, count
const Register kLog("Log", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    const auto dst = c.At<T>(2), src = c.At<T>(3);
    const uint32_t count = Number(c, 4);
    if (c[0] == 0) {
      Log(dst, src, count);
    } else if (c[0] == 10) {
      Log10(dst, src, count);
    } else if (c[1] >= 0) {
      Log2(dst, src, c.At<uint8_t>(1), count);
    } else {
      Log2(dst, src, count);
    }
    ClearFrom(c, 1);
  });
});

// args: dst, src, count
const Register kSilu("Silu", [](const Call& c) {
  WithType<half, float>(
      c.types[0], [&](auto t) { Silu(c.At<decltype(t)>(0), c.At<decltype(t)>(1), Number(c, 2)); });
});

// args: tmp or -1, dst, src, count
const Register kSigmoid("Sigmoid", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    if (c[0] >= 0) {
      Sigmoid(c.At<T>(1), c.At<T>(2), c.At<uint8_t>(0), Number(c, 3));
    } else {
      Sigmoid(c.At<T>(1), c.At<T>(2), Number(c, 3));
    }
    ClearFrom(c, 0);
  });
});

constexpr CumSumConfig kDown{false, false, true};

// args: tmp or -1, along the rows, rows, columns, dst, last row, src
const Register kCumSum("CumSum", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    const CumSumInfo info{Number(c, 2), Number(c, 3)};
    auto dst = c.At<T>(4), last = c.At<T>(5);
    const auto src = c.At<T>(6);
    if (c[0] >= 0) {
      auto tmp = c.At<uint8_t>(0);
      c[1] != 0 ? CumSum<T>(dst, last, src, tmp, info)
                : CumSum<T, kDown>(dst, last, src, tmp, info);
    } else {
      c[1] != 0 ? CumSum<T>(dst, last, src, info) : CumSum<T, kDown>(dst, last, src, info);
    }
    ClearFrom(c, 0);
  });
});

// args: tmp or -1, outter, inner, n, dst, src
const Register kSum("Sum", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    const SumParams params{Number(c, 1), Number(c, 2), Number(c, 3)};
    if (c[0] >= 0) {
      Sum(c.At<T>(4), c.At<T>(5), c.At<uint8_t>(0), params);
    } else {
      Sum(c.At<T>(4), c.At<T>(5), params);
    }
    ClearFrom(c, 0);
  });
});

template <typename T, typename Axes, bool reuse>
void RunReduce(const Call& c) {
  const uint32_t shape[2] = {Number(c, 4), Number(c, 5)};
  const auto dst = c.At<T>(6), src = c.At<T>(7);
  const auto tmp = c.At<uint8_t>(3);
  if constexpr (std::is_same<T, float>::value) {
    if (c[0] == 0) return ReduceSum<T, Axes, reuse>(dst, src, tmp, shape, true);
    if (c[0] == 3) return ReduceMean<T, Axes, reuse>(dst, src, tmp, shape, true);
  }
  c[0] == 1 ? ReduceMax<T, Axes, reuse>(dst, src, tmp, shape, true)
            : ReduceMin<T, Axes, reuse>(dst, src, tmp, shape, true);
}

// args: kind (sum, largest, least, mean), of columns, may lose the source, tmp, rows, columns, dst,
// src
const Register kReduceAxis("ReduceAxis", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    using AR = Pattern::Reduce::AR;
    using RA = Pattern::Reduce::RA;
    if (c[1] == 0) {
      c[2] == 0 ? RunReduce<T, AR, false>(c) : RunReduce<T, AR, true>(c);
    } else {
      c[2] == 0 ? RunReduce<T, RA, false>(c) : RunReduce<T, RA, true>(c);
    }
    // The source lies before the temporary space.
    ClearFrom(c, c[2] == 0 ? 3 : 7);
  });
});

// args: rows, columns, dst, src, tmp
const Register kConfusionTranspose("ConfusionTranspose", [](const Call& c) {
  WithType<int16_t, uint16_t, half, int32_t, uint32_t, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    const uint32_t rows = Number(c, 0), columns = Number(c, 1), block = 32 / sizeof(T);
    ConfusionTransposeTiling tiling{block, rows, columns, rows / 16, rows, columns / block};
    ConfusionTranspose(c.At<T>(2), c.At<T>(3), c.At<uint8_t>(4),
                       TransposeType::TRANSPOSE_ND2ND_ONLY, tiling);
  });
});

template <typename T, uint32_t mode>
void RunDropOut(const Call& c) {
  DropOutShapeInfo info;
  info.firstAxis = Number(c, 2);
  info.srcLastAxis = Number(c, 3);
  info.maskLastAxis = Number(c, 4);
  DropOut<T, false, mode>(c.At<T>(6), c.At<T>(7), c.At<uint8_t>(8), c.At<uint8_t>(5),
                          c.Bits<float>(1), info);
}

// args: mode, keepProb, rows, columns, columns of the mask, tmp, dst, src, mask
const Register kDropOut("DropOut", [](const Call& c) {
  WithType<half, float>(c.types[0], [&](auto t) {
    using T = decltype(t);
    switch (c[0]) {
      case 0:
        RunDropOut<T, 0>(c);
        break;
      case 1:
        RunDropOut<T, 1>(c);
        break;
      case 2:
        RunDropOut<T, 2>(c);
        break;
      case 3:
        RunDropOut<T, 3>(c);
        break;
      default:
        RunDropOut<T, 4>(c);
    }
    // A mask with padding may be rewritten; it lies before the temporary space.
    ClearFrom(c, 8);
  });
});

}  // namespace
}  // namespace vector_test
