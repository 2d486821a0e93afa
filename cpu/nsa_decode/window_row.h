// A window of the cache becomes one compressed row.
#pragma once

#include "cpu/engine/simd/vec_math.h"
#include "cpu/nsa_decode/params.h"

namespace nsa::cpu {
namespace {

// Sums that are kept apart and added at the end: their error is that of a quarter of the terms.
constexpr int64_t kWindowSums = 4;

// The window that ends with the last token of row b, into its slot of the cache. x holds a window
// of D padded floats, and one row more; `before` are the tokens before the row where rows are
// packed.
inline void compress_last_window(const NsaCompressWithCacheParams& p, int64_t b, int64_t before,
                                 float* x) {
  const int64_t begin = before + p.seq_len[b] - p.block_size, padded = round_up(p.D, kLanePad);
  float* sum = x + p.block_size * padded;
  for (int64_t h = 0; h < p.N; ++h) {
    for (int64_t j = 0; j < p.block_size; ++j) {
      float* row = x + j * padded;
      to_float(p.dtype, p.input.data, p.input.offset(p.packed ? 0 : b, h, begin + j), p.D, row);
      fill(row + p.D, padded - p.D, 0.0f);
    }
    for (int64_t d = 0; d < padded; d += W) {
      V acc[kWindowSums] = {zero(), zero(), zero(), zero()};
      for (int64_t j = 0; j < p.block_size; ++j) {
        const V weight = set1(load1(p.dtype, p.weight, j * p.N + h));
        V& sum = acc[j % kWindowSums];
        sum = fma(load(x + j * padded + d), weight, sum);
      }
      store(sum + d, add(add(acc[0], acc[1]), add(acc[2], acc[3])));
    }
    from_float(p.dtype, sum, p.D, p.rows, (b * p.N + h) * p.D);
  }
  const int64_t bytes = p.N * p.D * elem_size(p.dtype);
  __builtin_memcpy(static_cast<char*>(p.cache) + p.slot[b] * bytes,
                   static_cast<const char*>(p.rows) + b * bytes, static_cast<size_t>(bytes));
}

void compress_last_windows(const NsaCompressWithCacheParams& p, float* scratch) {
  const int64_t bytes = p.N * p.D * elem_size(p.dtype);
  int64_t before = 0;
  for (int64_t b = 0; b < p.B; ++b) {
    if (p.fills(p.seq_len[b])) {
      compress_last_window(p, b, before, scratch);
    } else {
      __builtin_memset(static_cast<char*>(p.rows) + b * bytes, 0, static_cast<size_t>(bytes));
    }
    if (p.packed) before += p.seq_len[b];
  }
}

}  // namespace
}  // namespace nsa::cpu
