// The arithmetic of a step of decoding: the scores of some keys for all heads of a group, and the
// sum of their values. Heads are the lanes, so keys are read as they stand in the cache: a word of
// a key meets the same word of every head. The end includes the other variants that the translation
// unit being compiled has.
#pragma once

#include <type_traits>

#include "cpu/engine/plan/decode.h"
#include "cpu/engine/simd/vec_math.h"
#include "cpu/engine/step/kernel_variant.h"
#include "cpu/engine/threads/scratch.h"

namespace nsa::cpu {
namespace {

// Where the first kSpread words of a group's head stand in the query of a decode row, [words /
// kSpread] [lanes * kSpread], the next ones lanes * kSpread further: of every four heads the first
// two stand with their words in one vector, the others at the same lanes of the next.
inline int64_t query_place(int64_t head) {
  if (kSpread == 1) return head;
  return head / W * 2 * W + head % 4 / 2 * W + head % W / 4 * 4 + head % 2 * 2;
}

// Keys at once: enough accumulators to cover the latency of the multiplication.
constexpr int kScoreKeys = (kMR * kNR < 16 ? kMR * kNR : 16) / kSpread;

// Members that a variant on vectors does not need.
struct VectorSteps {
  static constexpr int64_t kWordStep = kSpread;     // words of a query are a multiple of it
  static constexpr int64_t kQuerySpread = kSpread;  // that stand beside each other
  static constexpr int64_t kLeastKeys = 1;          // that can be read in place
  static constexpr bool kWholeTiles = false;        // the output has rows for all lanes
  static constexpr int64_t kWordBytes = 4;          // of a key, where the product reads it
  static V spread(const char* p) { return spread_words(p); }
  struct Session {};
};

// How the elements of a cache become operands. kDirect: keys and fitting values need no copy;
// copy() makes one of n elements, filled up to so many words with 0. values(): the words of NR
// vectors of a value's row, of two neighbouring rows where words are of two.
template <class T>
struct DecodeFloat : VectorSteps {
  static constexpr int64_t kPerWord = 1;
  static constexpr bool kDirect = sizeof(T) == 4;
  static constexpr int kLast = 1;  // vectors of the last columns' panels
  static void restore_columns(float*, int64_t) {}
  static V add(V acc, V a, V b) { return fma(a, b, acc); }
  static void copy(ElemType t, const void* data, int64_t from, int64_t n, int64_t words, char* to) {
    float* x = reinterpret_cast<float*>(to);
    to_float(t, data, from, n, x);
    fill(x + n, words - n, 0.0f);
  }
  template <int NR>
  static void values(const char* row, const char*, int64_t d, int64_t, V* b) {
    const float* x = reinterpret_cast<const float*>(row) + d;
#pragma GCC unroll 4
    for (int i = 0; i < NR; ++i) b[i] = load(x + i * W);
  }
};
// bf16 as it stands in the cache becomes floats on its way into a register: copies of a step's keys
// and values as floats would not fit a first-level cache of 32 KB.
struct DecodeBFloat16 : DecodeFloat<float> {
  static constexpr int64_t kWordBytes = 2;
  static V spread(const char* p) { return spread_bf16(p); }
  static void copy(ElemType, const void* data, int64_t from, int64_t n, int64_t words, char* to) {
    __builtin_memcpy(to, static_cast<const char*>(data) + 2 * from, static_cast<size_t>(2 * n));
    __builtin_memset(to + 2 * n, 0, static_cast<size_t>(2 * (words - n)));
  }
  template <int NR>
  static void values(const char* row, const char*, int64_t d, int64_t, V* b) {
    const uint16_t* x = reinterpret_cast<const uint16_t*>(row) + d;
#pragma GCC unroll 4
    for (int i = 0; i < NR; ++i) b[i] = load_bf16(x + i * W);
  }
};

struct Rows {
  const char* data;
  int64_t stride;  // bytes
};

// Memory that a later step reads: `rows` rows of `bytes`.
struct Run {
  const char* data;
  int64_t stride, rows, bytes;
};

// Lines of memory are prefetched one at a time, between the multiplications of a step: in a burst
// they would fill the few places that a processor has for lines on their way, and what is needed
// now would wait behind them. A step of short vectors has more places between its multiplications,
// `calls`, than lines: then only every so many calls prefetch one.
class LinesInOrder {
 public:
  LinesInOrder(const Run* begin, const Run* end, Prefetch how, int64_t calls)
      : run_(begin), end_of_runs_(end), how_(how) {
    for (const Run* run = begin; run != end; ++run) prefetch_pages(*run);
    if (!kPaced) return;
    int64_t lines = 0;
    for (const Run* run = begin; run != end; ++run) {
      const auto before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(run->data) % 64);
      lines += run->rows * ceil_div(before + run->bytes, 64);
    }
    if (lines > 0) {
      pace_ = max64(1, ceil_div(calls, lines));
    } else {
      left_ = INT64_MAX;
    }
  }

  [[gnu::always_inline]] void prefetch() {
    if (kPaced) {
      if (--left_ > 0) return;
      left_ = pace_;
    }
    prefetch_now();
  }
  // Each of the calls 0 to 3 prefetches a line, or one of them all lines.
  [[gnu::always_inline]] void prefetch_round_robin(int) { prefetch(); }
  [[gnu::noinline]] void prefetch_rest() {
    while (at_ != end_ || run_ != end_of_runs_) prefetch_now();
  }

 private:
  // With vectors of 16 numbers a step of 128 dimensions has about as many places as lines.
  static constexpr bool kPaced = W < 16;

  [[gnu::always_inline]] void prefetch_now() {
    if (at_ == end_) {
      if (run_ == end_of_runs_) return;
      next_row();
    }
    prefetch(at_);
    at_ += 64;
  }

  [[gnu::always_inline]] void prefetch(const char* line) const {
    if (how_ == Prefetch::kFar)
      __builtin_prefetch(line, 0, 2);
    else if (how_ == Prefetch::kNearOnce)
      __builtin_prefetch(line, 0, 0);
    else
      __builtin_prefetch(line, 0, 3);
  }

  // One line of every page at once: until the address of a page is translated, the lines prefetched
  // in it would wait, and those after them. (As a call it would be dropped: it has no effect that
  // the compiler knows.)
  [[gnu::always_inline]] void prefetch_pages(const Run& run) const {
    const int64_t per_page = run.rows > 1 ? max64(1, kPage / max64(1, run.stride)) : 1;
    for (int64_t row = 0; row < run.rows; row += per_page)
      for (int64_t i = 0; i < run.bytes; i += kPage) prefetch(run.data + row * run.stride + i);
  }

  // A call, which saves all accumulators: only where there is another row.
  [[gnu::noinline]] void next_row() {
    const char* row = run_->data + row_ * run_->stride;
    at_ = row - reinterpret_cast<uintptr_t>(row) % 64;
    end_ = at_ + round_up(row + run_->bytes - at_, 64);
    if (++row_ == run_->rows) {
      row_ = 0;
      ++run_;
    }
  }

  const Run* run_;
  const Run* end_of_runs_;
  Prefetch how_;
  int64_t pace_ = 1, left_ = 1;  // calls from one line to the next, and to it
  int64_t row_ = 0;
  const char *at_ = nullptr, *end_ = nullptr;
};

// Prefetches into the second-level cache, from several pages in turn: four streams of the keys and
// four of the values, or eight of a run that has no other of its shape. Two cores of a Xeon with
// AMX that also compute read 16 KB at a time at 25 GB/s so, and at 18 line after line.
class LinesOfPages {
 public:
  LinesOfPages(const Run* begin, const Run* end, Prefetch, int64_t)
      : run_(begin), end_of_runs_(end), over_(begin == end) {}

  [[gnu::always_inline]] void prefetch() {
    if (over_ || (at_ == end_ && !next_row())) return;
    prefetch(stream_[next_] + at_);
    if (++next_ < kStreams) return;
    next_ = 0;
    at_ += 64;
  }
  // Serves four of the streams per call: few instructions fit between products.
  [[gnu::always_inline]] void prefetch_some() {
    if (over_) return;
    if (at_ == end_ || next_ % kSome > 0) return prefetch_singly();
#pragma GCC unroll 4
    for (int i = 0; i < kSome; ++i) prefetch(stream_[next_ + i] + at_);
    at_ += next_ * (64 / kSome);
    next_ ^= kSome;
  }
  [[gnu::always_inline]] void prefetch_round_robin(int i) {
    if (i == 0) prefetch_some();
  }
  [[gnu::noinline]] void prefetch_rest() {
    while (!over_) prefetch();
  }

 private:
  static constexpr int kSome = 4, kStreams = 2 * kSome;

  [[gnu::always_inline]] static void prefetch(const char* line) { __builtin_prefetch(line, 0, 2); }

  [[gnu::noinline]] void prefetch_singly() {
    for (int i = 0; i < kSome; ++i) prefetch();
  }

  // The next row of every stream, or the first ones of the next runs.
  [[gnu::noinline]] bool next_row() {
    if (row_ < rows_) {
      for (int i = 0; i < kStreams; ++i) stream_[i] += stride_;
    } else {
      over_ = run_ == end_of_runs_;
      if (over_) return false;
      next_runs();
    }
    ++row_;
    at_ = 0;
    return true;
  }

  void next_runs() {
    const Run first = *run_++;
    row_ = 0;
    if (run_ == end_of_runs_ || run_->rows != first.rows || run_->stride != first.stride ||
        run_->bytes != first.bytes)
      return divide(first, kStreams, stream_);
    divide(first, kSome, stream_);
    divide(*run_++, kSome, stream_ + kSome);
  }

  // A run of one row is as many rows as there are streams.
  void divide(Run run, int streams, const char** stream) {
    if (run.rows == 1) {
      run.bytes = run.stride = round_up(ceil_div(run.bytes, streams), 64);
      run.rows = streams;
    }
    rows_ = ceil_div(run.rows, streams);
    stride_ = run.stride;
    const bool whole = (reinterpret_cast<uintptr_t>(run.data) | run.stride) % 64 == 0;
    end_ = round_up(run.bytes, 64) + (whole ? 0 : 64);
    for (int64_t i = 0; i < streams; ++i)
      stream[i] = run.data + min64(i * rows_, run.rows - rows_) * run.stride;
  }

  const Run* run_;
  const Run* end_of_runs_;
  const char* stream_[kStreams];
  int64_t next_ = 0;
  bool over_;
  int64_t at_ = 0, end_ = 0;  // in the row of every stream
  int64_t row_ = 0, rows_ = 0, stride_ = 0;
};

using Lines = std::conditional_t<kHasTiles, LinesOfPages, LinesInOrder>;

// s[j][0..W) = sum over words of key j's word times the heads' words, for KEYS keys.
template <class Variant, int KEYS>
[[gnu::always_inline]] inline void score_keys(int64_t words, const char* key, int64_t stride,
                                              const float* query, int64_t lanes, float* s,
                                              Lines& lines) {
  V acc[KEYS][kSpread];
#pragma GCC unroll 16
  for (int j = 0; j < KEYS; ++j)
#pragma GCC unroll 2
    for (int i = 0; i < kSpread; ++i) acc[j][i] = zero();
  // Four rows from each of these: their addresses then need few registers.
  const char* rows[(KEYS + 3) / 4];
#pragma GCC unroll 4
  for (int j = 0; j < (KEYS + 3) / 4; ++j) rows[j] = key + 4 * j * stride;
  const int64_t stride3 = 3 * stride;
  for (int64_t w = 0; w < words; w += kSpread) {
    V q[kSpread];
#pragma GCC unroll 2
    for (int i = 0; i < kSpread; ++i) q[i] = load(query + w * lanes + i * W);
    if (KEYS > 1) lines.prefetch();
#pragma GCC unroll 16
    for (int j = 0; j < KEYS; ++j) {
      const V k = Variant::spread(rows[j / 4] + Variant::kWordBytes * w +
                                  (j % 4 == 3 ? stride3 : j % 4 * stride));
#pragma GCC unroll 2
      for (int i = 0; i < kSpread; ++i) acc[j][i] = Variant::add(acc[j][i], q[i], k);
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < KEYS; ++j) store(s + j * lanes, sum_spread(acc[j]));
}

// How often score_step() calls lines.prefetch(), but for few keys.
template <class Variant>
inline int64_t score_calls(int64_t n, int64_t words, int64_t heads) {
  return ceil_div(n, kScoreKeys) * (words / kSpread) * (heads / W);
}

// s[n][lanes]
template <class Variant>
inline void score_step(int64_t n, int64_t words, Rows keys, const float* query, int64_t lanes,
                       int64_t heads, float* s, Lines& lines) {
  for (int64_t g = 0; g < heads; g += W) {
    int64_t j = 0;
    const auto score = [&](auto count) {
      constexpr int kKeys = decltype(count)::value;
      for (; j + kKeys <= n; j += kKeys) {
        score_keys<Variant, kKeys>(words, keys.data + j * keys.stride, keys.stride,
                                   query + kSpread * g, lanes, s + j * lanes + g, lines);
      }
    };
    score(std::integral_constant<int, kScoreKeys>{});
    // The last keys together with some before them, which get the same bits again: fewer at once
    // would wait for their additions.
    if (0 < j && j < n) {
      j = n - kScoreKeys;
      score(std::integral_constant<int, kScoreKeys>{});
    }
    score(std::integral_constant<int, 4>{});
    score(std::integral_constant<int, 1>{});
  }
}

// The sum of a step's values, weighted by the probabilities of every head.
struct ValueStep {
  Rows rows;  // [n] of Dv elements
  int64_t n, Dv;
  const float* prob;  // [words of n, lanes]
  int64_t lanes;
  const float* factor;  // [lanes] what the old output is multiplied by; nullptr: there is none
  float* out;           // [G, row]; kWholeTiles: [lanes, row]
  int64_t row;
  float* words;  // [kStepKeys / 2, row] for kWholeTiles
};

// MR heads from `head` on, NR vectors from column d on.
template <class Variant, int NR, int MR>
[[gnu::always_inline]] inline void value_tile(const ValueStep& x, int64_t head, int64_t d,
                                              Lines& lines) {
  V acc[MR][NR];
  float* out = x.out + head * x.row + d;
  if (x.factor) {
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < NR; ++v)
        acc[i][v] = mul(load(out + i * x.row + v * W), set1(x.factor[head + i]));
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < NR; ++v) acc[i][v] = zero();
  }
  const char* row = x.rows.data;
  const float* prob = x.prob + head;
  for (int64_t j = 0; j < x.n; j += Variant::kPerWord) {
    V b[NR];
    // A last key alone is its own partner, whose probability is 0.
    const char* partner = j + 1 < x.n ? row + x.rows.stride : row;
    Variant::template values<NR>(row, partner, d, x.Dv, b);
    lines.prefetch();
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const V p = set1(prob[i]);
#pragma GCC unroll 4
      for (int v = 0; v < NR; ++v) acc[i][v] = Variant::add(acc[i][v], p, b[v]);
    }
    row += Variant::kPerWord * x.rows.stride;
    prob += x.lanes;
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < NR; ++v) store(out + i * x.row + v * W, acc[i][v]);
}

template <class Variant, int NR, int MR>
inline void value_rows(const ValueStep& x, int64_t rows, int64_t head, int64_t d, Lines& lines) {
  if (rows == MR) return value_tile<Variant, NR, MR>(x, head, d, lines);
  if constexpr (MR > 1) value_rows<Variant, NR, MR - 1>(x, rows, head, d, lines);
}

// The heads are divided evenly, so that 16 are 6 + 5 + 5.
template <class Variant, int NR>
inline void value_panel(const ValueStep& x, int64_t heads, int64_t d, Lines& lines) {
  const int64_t tiles = ceil_div(heads, kMR);
  for (int64_t n = 0, head = 0; n < tiles; ++n) {
    const int64_t rows = ceil_div(heads - head, tiles - n);
    value_rows<Variant, NR, kMR>(x, rows, head, d, lines);
    head += rows;
  }
}

// How often value_step() calls lines.prefetch().
template <class Variant>
inline int64_t value_calls(int64_t n, int64_t Dv, int64_t heads) {
  const int64_t panels = Dv / (kNR * W), rest = Dv % (kNR * W);
  return (panels + ceil_div(rest, Variant::kLast * W)) * ceil_div(heads, kMR) *
         ceil_div(n, Variant::kPerWord);
}

template <class Variant>
inline void value_step(const ValueStep& x, int64_t heads, Lines& lines) {
  int64_t d = 0;
  for (; d + kNR * W <= x.Dv; d += kNR * W) value_panel<Variant, kNR>(x, heads, d, lines);
  for (; d < x.Dv; d += Variant::kLast * W)
    value_panel<Variant, Variant::kLast>(x, heads, d, lines);
}

}  // namespace
}  // namespace nsa::cpu

#ifdef NSA_HAS_BF16_DOT
#include "cpu/engine/step/decode_dot.h"
#endif
#ifdef NSA_ISA_AMX
#include "cpu/engine/step/decode_tiles.h"
#endif

namespace nsa::cpu {
namespace {

// The kernel variant of decoding in bfloat16.
#if defined(NSA_ISA_AMX)
using DecodeVariantOfBFloat16 = DecodeTiles;
#elif defined(NSA_HAS_BF16_DOT)
using DecodeVariantOfBFloat16 = DecodeWords;
#else
using DecodeVariantOfBFloat16 = DecodeBFloat16;
#endif

}  // namespace
}  // namespace nsa::cpu
