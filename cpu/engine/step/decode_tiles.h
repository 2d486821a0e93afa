// A step of decoding on AMX tiles: sixteen keys, or columns of values, meet sixteen heads of a
// group at once. Keys are read as they stand in the cache. Included by the translation unit for AMX
// only.
#pragma once

#include "cpu/engine/step/amx.h"
#include "cpu/engine/step/decode_dot.h"

namespace nsa::cpu {
namespace {

struct DecodeTiles : DecodeWords {
  static constexpr int64_t kWordStep = kAmxTile;
  static constexpr int64_t kQuerySpread = 1;
  static constexpr int64_t kLeastKeys = kAmxTile;
  static constexpr bool kWholeTiles = true;
  static void restore_columns(float*, int64_t) {}
  // While it lives, this thread's tiles are configured.
  struct Session {
    Session() { amx_begin(); }
    ~Session() { amx_end(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };
};

template <>
inline void score_step<DecodeTiles>(int64_t n, int64_t words, Rows keys, const float* query,
                                    int64_t lanes, int64_t heads, float* s, Lines& lines) {
  const auto* rows = reinterpret_cast<const float*>(keys.data);
  const int64_t stride = keys.stride / 4;
  const auto prefetch = [&](int) __attribute__((always_inline)) { lines.prefetch_some(); };
  for (int64_t g = 0; g < heads; g += kAmxTile) {
    // Sixteen keys each from `first` and `second` on. Keys that both cover get the same bits twice.
    const auto two = [&](int64_t first, int64_t second) {
      float* to = s + g;
      amx_tiles<2, 1>(words,
                      {rows + first * stride, rows + second * stride, stride, to + first * lanes,
                       to + second * lanes, lanes},
                      query + g, lanes, false, prefetch);
    };
    int64_t j = 0;
    for (; j + 2 * kAmxTile <= n; j += 2 * kAmxTile) two(j, j + kAmxTile);
    if (j == n) continue;
    if (n >= kAmxTile) {
      two(min64(j, n - kAmxTile), n - kAmxTile);
      continue;
    }
    alignas(64) float few[kAmxTile * kAmxTile];
    const AmxRows tile = AmxRows::together(rows, stride, few, kAmxTile);
    amx_tiles<1, 1>(words, tile, query + g, lanes, false, prefetch);
    for (int64_t i = 0; i < n; ++i) store(s + i * lanes + g, load(few + i * kAmxTile));
  }
}

// The lines of a step, 512 with 128 dimensions, are prefetched all through it: so many that a core
// waits for a place for them where they are prefetched between the products alone. A fourth are
// prefetched between those of scores, an eighth beside the exponentials, a fourth here.
//
// x.words[two keys][row]: the words of two neighbouring keys' values, zeros past the last key.
inline void pack_values(const ValueStep& x, int64_t words, Lines& lines) {
  const char* even = x.rows.data;
  for (int64_t j = 0; j < words; ++j, even += 2 * x.rows.stride) {
    float* to = x.words + j * x.row;
    lines.prefetch_some();
    if (2 * j >= x.n) {
      fill(to, x.row, 0.0f);
      continue;
    }
    // A last key alone is its own partner, whose probability is 0.
    const char* odd = 2 * j + 1 < x.n ? even + x.rows.stride : even;
    int64_t d = 0;
    const auto pack = [&](V a, V b) {
      V first, second;
      word_columns(a, b, first, second);
      store(to + d, first);
      store(to + d + W, second);
    };
    for (; d + 2 * W <= x.Dv; d += 2 * W)
      pack(load_words<true>(even + 2 * d, 2 * W), load_words<true>(odd + 2 * d, 2 * W));
    if (d < x.Dv) {
      const int64_t left = x.Dv - d;
      pack(load_words<false>(even + 2 * d, left), load_words<false>(odd + 2 * d, left));
    }
  }
}

// Multiplies the old output by the heads' factors, most of which are 1.
inline void rescale_output(const ValueStep& x, int64_t lanes) {
  for (int64_t g = 0; g < lanes; ++g) {
    const float factor = x.factor[g];
    if (factor != 1.0f) scale_row(x.out + g * x.row, x.row, factor);
  }
}

template <>
inline void value_step<DecodeTiles>(const ValueStep& x, int64_t, Lines& lines) {
  constexpr int64_t kWords = kStepKeys / 2;
  const int64_t words = round_up(ceil_div(x.n, 2), kAmxTile);
  pack_values(x, words, lines);
  if (x.factor) rescale_output(x, x.lanes);
  const auto prefetch = [&](int) __attribute__((always_inline)) {
    lines.prefetch_some();
    lines.prefetch_some();
    lines.prefetch_some();
  };
  for (int64_t g = 0; g < x.lanes; g += kAmxTile) {
    alignas(64) float heads[kAmxTile * kWords];  // [heads][words]
    for (int64_t j = 0; j < words; j += kAmxTile)
      transpose_16x16(x.prob + j * x.lanes + g, x.lanes, heads + j, kWords);
    int64_t d = 0;
    for (; d + kAmxWide <= x.row; d += kAmxWide) {
      float* out = x.out + g * x.row + d;
      if (x.factor) {
        amx_wide_load(out, x.row);
      } else {
        amx_wide_zero();
      }
      amx_wide(words, heads, kWords, x.words + d, x.row, prefetch);
      amx_wide_store(out, x.row);
    }
    for (; d < x.row; d += 2 * kAmxTile) {
      const AmxRows tile = AmxRows::together(heads, kWords, x.out + g * x.row + d, x.row);
      amx_tiles<1, 2>(words, tile, x.words + d, x.row, x.factor != nullptr, prefetch);
    }
  }
}

}  // namespace
}  // namespace nsa::cpu
