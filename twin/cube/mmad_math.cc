#include "twin/cube/mmad_math.h"

#include <cmath>
#include <limits>

namespace twin {
namespace {

constexpr int kLanes = 16;

// One row of A by 16 columns of B.
void Accumulate(const float* a, const float* b, uint64_t k, uint64_t step, float* sum) {
  for (uint64_t begin = 0; begin < k; begin += step) {
    const uint64_t end = std::min(k, begin + step);
    float part[kLanes] = {};
    for (uint64_t i = begin; i < end; ++i) {
      const float factor = a[i];
      const float* row = b + i * kLanes;
      for (int lane = 0; lane < kLanes; ++lane) part[lane] += factor * row[lane];
    }
    for (int lane = 0; lane < kLanes; ++lane) sum[lane] += part[lane];
  }
}

// In 64 bits, which hold any sum of 4095 products; int32_t results only saturate.
void Accumulate(const int32_t* a, const int32_t* b, uint64_t k, uint64_t, int32_t* sum) {
  int64_t wide[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) wide[lane] = sum[lane];
  for (uint64_t i = 0; i < k; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) wide[lane] += int64_t{a[i]} * b[i * kLanes + lane];
  }
  constexpr int64_t least = std::numeric_limits<int32_t>::min();
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (int lane = 0; lane < kLanes; ++lane) {
    sum[lane] = static_cast<int32_t>(std::min(most, std::max(least, wide[lane])));
  }
}

void SaturateLanes(float* sum) {
  constexpr float largest = std::numeric_limits<float>::max();
  for (int lane = 0; lane < kLanes; ++lane) {
    if (std::isnan(sum[lane])) {
      sum[lane] = 0;
    } else if (std::isinf(sum[lane])) {
      sum[lane] = std::copysign(largest, sum[lane]);
    }
  }
}

template <typename T>
void MultiplyAll(const MmadArrays& r, const T* a, const T* b, const MmadStart& start, bool saturate,
                 uint8_t* c) {
  constexpr uint64_t kRowBytes = kLanes * sizeof(T);
  for (uint64_t block = 0; block * kLanes < r.n; ++block) {
    for (uint64_t row = 0; row < r.m; ++row) {
      const uint64_t at = (block * r.c_rows + row) * kRowBytes;
      T sum[kLanes] = {};
      if (start.data != nullptr) {
        const uint64_t columns = std::min<uint64_t>(kLanes, r.n - block * kLanes);
        std::memcpy(sum, start.data + (start.one_row ? block * kRowBytes : at),
                    columns * sizeof(T));
      }
      Accumulate(a + row * r.k, b + block * r.k * kLanes, r.k, r.c0, sum);
      if constexpr (std::is_same<T, float>::value) {
        if (saturate) SaturateLanes(sum);
      }
      std::memcpy(c + at, sum, kRowBytes);
    }
  }
}

}  // namespace

void Multiply(const MmadArrays& arrays, const MmadStart& start, bool saturate, uint8_t* c) {
  if (!arrays.a_whole.empty()) {
    MultiplyAll(arrays, arrays.a_whole.data(), arrays.b_whole.data(), start, saturate, c);
  } else {
    MultiplyAll(arrays, arrays.a.data(), arrays.b.data(), start, saturate, c);
  }
}

}  // namespace twin
