// C[M, N] (+)= A[M, K] B[K, N] on tiles that sit in the caches: the five products of attention.
//
// One operand is broadcast (A, any strides), the other is read by vectors along N (B, C rows of
// whole vectors). With keys as lanes this gives, without transposing queries,
//   S = Q K^T, dP = dO V^T     B = K^T, V^T, packed once per KV block
//   O = P V,   dQ = dS K       B = V, K, row by row
//   dV = P^T dO, dK = dS^T Q   A read down its columns
// K counts words: of bf16 a word has two neighbouring rows of B, which were interleaved at packing.
#pragma once

#include "cpu/engine/simd/vec_math.h"
#include "cpu/engine/threads/scratch.h"
#include "cpu/types.h"

namespace nsa::cpu {
namespace {

// Memory that a later product reads, prefetched a few lines at a time while this one computes.
// Prefetched all at once, the lines would wait for each other, and the loads behind them.
class PrefetchQueue {
 public:
  static PrefetchQueue carve(Arena& arena, int64_t ranges) {
    PrefetchQueue a;
    a.ranges_ = arena.take<Range>(ranges);
    return a;
  }

  // A new list.
  void clear() { count_ = next_ = lines_ = at_once_ = 0; }

  // n elements of p, from `offset` on.
  void add(ElemType t, const void* p, int64_t offset, int64_t n) {
    const char* at = static_cast<const char*>(p) + offset * elem_size(t);
    ranges_[count_++] = {at, n * elem_size(t)};
    lines_ += ceil_div(n * elem_size(t), kLine);
  }
  void add(const float* p, int64_t n) { add(ElemType::kFloat32, p, 0, n); }

  // The list is complete; step() will be called so many times.
  void over(int64_t steps) { at_once_ = ceil_div(lines_, max64(steps, 1)); }

  // Prefetches the next few lines. The range is kept in registers: written back for every line it
  // would cost six cycles for each.
  void step() {
    if (next_ == count_) return;
    Range range = ranges_[next_];
    for (int64_t left = at_once_; left > 0; --left) {
      __builtin_prefetch(range.at, 0, 2);
      range.at += kLine;
      range.bytes -= kLine;
      if (range.bytes > 0) continue;
      if (++next_ == count_) return;
      range = ranges_[next_];
    }
    ranges_[next_] = range;
  }

 private:
  static constexpr int64_t kLine = 64;
  struct Range {
    const char* at;
    int64_t bytes;  // left
  };

  Range* ranges_ = nullptr;
  int64_t count_ = 0, next_ = 0, lines_ = 0, at_once_ = 0;
};

// How C is combined with its old value, which is added at the end, not where the accumulators
// begin: a long sum over many calls then rounds like a sum of partial sums.
enum class Into { kReplace, kAdd, kAddScaled };  // kAddScaled: to C rows times row_scale[row]

struct Sizes {
  int64_t M, N, K;
};

// Where a product's sums go, and the queue that it prefetches from.
struct Sum {
  Into into = Into::kReplace;
  const float* row_scale = nullptr;   // [M], of Into::kAddScaled
  PrefetchQueue* prefetch = nullptr;  // its step() is called matmul_steps() times

  Sum from(int64_t row) const { return {into, row_scale ? row_scale + row : nullptr, prefetch}; }
};

// A step of the K loop, of floats. Other variants have theirs.
struct FloatStep {
  static V broadcast(const float* a) { return set1(*a); }
  static V step(V acc, V a, V b) { return fma(a, b, acc); }
};

// A: element (row, k) is *at(row, k * k_stride). local<MR>(): the first MR rows, in registers.
struct Operand {
  const float* data;
  int64_t row_stride, k_stride;

  const float* at(int64_t row, int64_t offset) const { return data + row * row_stride + offset; }
  Operand from(int64_t row) const { return {data + row * row_stride, row_stride, k_stride}; }
  template <int MR>
  Operand local() const {
    return *this;
  }
};

// Rows of A anywhere in memory.
template <int MR>
struct ListedRows {
  static constexpr int64_t k_stride = 1;
  const float* rows[MR];

  const float* at(int row, int64_t offset) const { return rows[row] + offset; }
};
struct RowList {
  const float* const* rows;

  RowList from(int64_t row) const { return {rows + row}; }
  template <int MR>
  [[gnu::always_inline]] ListedRows<MR> local() const {
    ListedRows<MR> list;
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) list.rows[i] = rows[i];
    return list;
  }
};

// B: element (k, n) is data[k * row_stride + n]. Or its lanes stand in panels, as many as a pass
// over the rows reads: then lane_stride is what a panel's lanes are from the next ones', for each
// lane.
struct Lanes {
  const float* data;
  int64_t row_stride, lane_stride = 1;

  const float* panel(int64_t n) const { return data + n * lane_stride; }
  Lanes from(int64_t n) const { return {panel(n), row_stride, lane_stride}; }
};

// Where the rows of C begin: row(i).
struct Output {
  float* data;
  int64_t row_stride;

  float* row(int64_t i) const { return data + i * row_stride; }
  Output from(int64_t row, int64_t column) const {
    return {data + row * row_stride + column, row_stride};
  }
};
struct OutputList {
  float* const* rows;
  int64_t column;

  float* row(int64_t i) const { return rows[i] + column; }
  OutputList from(int64_t row, int64_t n) const { return {rows + row, column + n}; }
};

template <class Step, int MR, int NR, class A, class C>
[[gnu::always_inline]] inline void micro_tile(int64_t K, A rows, Lanes lanes, C c, Sum sum) {
  const float* b = lanes.data;
  V acc[MR][NR];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) acc[i][j] = zero();
  const auto a = rows.template local<MR>();
  int64_t offset = 0;
  for (int64_t k = 0; k < K; ++k) {
    V bk[NR];
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) bk[j] = load(b + j * W);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      V ai = Step::broadcast(a.at(i, offset));
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) acc[i][j] = Step::step(acc[i][j], ai, bk[j]);
    }
    offset += a.k_stride;
    b += lanes.row_stride;
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) {
    const V scale = set1(sum.into == Into::kAddScaled ? sum.row_scale[i] : 1.0f);
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) {
      float* at = c.row(i) + j * W;
      store(at, sum.into == Into::kReplace ? acc[i][j] : fma(load(at), scale, acc[i][j]));
    }
  }
}

// `count` times MR rows. Never inlined: among the variables of a kernel the loop over K has no
// registers left for its pointers.
template <class Step, int MR, int NR, class A, class C>
[[gnu::noinline]] void micro_tiles(int64_t count, int64_t K, A a, Lanes b, C c, Sum sum) {
  for (int64_t row = 0; row < count * MR; row += MR) {
    if (sum.prefetch) sum.prefetch->step();
    micro_tile<Step, MR, NR>(K, a.from(row), b, c.from(row, 0), sum.from(row));
  }
}

template <class Step, int NR, class A, class C>
inline void micro_rows(int64_t rows, int64_t count, int64_t K, A a, Lanes b, C c, Sum sum) {
  switch (rows) {
    case 1:
      return micro_tiles<Step, 1, NR>(count, K, a, b, c, sum);
    case 2:
      return micro_tiles<Step, 2, NR>(count, K, a, b, c, sum);
    case 3:
      return micro_tiles<Step, 3, NR>(count, K, a, b, c, sum);
    case 4:
      return micro_tiles<Step, 4, NR>(count, K, a, b, c, sum);
    case 5:
      return micro_tiles<Step, 5, NR>(count, K, a, b, c, sum);
    default:
      return micro_tiles<Step, kMR, NR>(count, K, a, b, c, sum);
  }
}

// One panel of NR vectors: all rows pass over it while it stays in the first-level cache. The rows
// are divided evenly, so that 16 rows are 6 + 5 + 5 and no tile is left with a single row.
template <class Step, int NR, class A, class C>
inline void panel(int64_t M, int64_t K, A a, Lanes b, C c, Sum sum) {
  if (M == 0) return;
  const int64_t tiles = ceil_div(M, kMR), rows = M / tiles, more = M % tiles;
  if (more) micro_rows<Step, NR>(rows + 1, more, K, a, b, c, sum);
  const int64_t row = more * (rows + 1);
  micro_rows<Step, NR>(rows, tiles - more, K, a.from(row), b, c.from(row, 0), sum.from(row));
}

// How often matmul() calls ahead->step().
template <class Step>
constexpr int64_t matmul_steps(int64_t M, int64_t N) {
  return ceil_div(M, kMR) * ceil_div(N, kNR * W);
}

// A: Operand or RowList; C: Output or OutputList.
template <class Step, class A, class C>
inline void matmul_rows(Sizes of, A a, Lanes b, C c, Sum sum = {}) {
  const auto [M, N, K] = of;
  expect<Length::kWholeVectors>(N);
  int64_t n = 0;
  for (; n + kNR * W <= N; n += kNR * W) panel<Step, kNR>(M, K, a, b.from(n), c.from(0, n), sum);
  switch ((N - n) / W) {
    case 3:
      return panel<Step, 3>(M, K, a, b.from(n), c.from(0, n), sum);
    case 2:
      return panel<Step, 2>(M, K, a, b.from(n), c.from(0, n), sum);
    case 1:
      return panel<Step, 1>(M, K, a, b.from(n), c.from(0, n), sum);
    default:
      return;
  }
}

// Kernel variants specialise it.
template <class Step>
inline void matmul(Sizes of, Operand a, Lanes b, Output c, Sum sum = {}) {
  matmul_rows<Step>(of, a, b, c, sum);
}

// x[0..n) *= factor, n whole vectors.
inline void scale_row(float* x, int64_t n, float factor) {
  const V by = set1(factor);
  for (int64_t j = 0; j < n; j += W) store(x + j, mul(load(x + j), by));
}

// The product with zeros of A skipped, for tiles where a masked score (exactly 0 in A) stands
// beside a row of B that holds NaN or infinity: 0 times that is NaN, and would reach rows that
// never see it. A factor below the smallest normal number counts as 0, as in the forward's
// probabilities. Slow, and only used there; sums are double, because all terms go into one.
// per_word 2: words are two bf16. Neighbouring columns of C are c_step apart.
inline void matmul_visible(int64_t per_word, Sizes of, Operand a, Lanes b, Output c, Sum to = {},
                           int64_t c_step = 1) {
  constexpr int64_t kColumns = 16;
  const auto [M, N, K] = of;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n0 = 0; n0 < N; n0 += kColumns) {
      const int64_t columns = min64(kColumns, N - n0);
      double sum[kColumns] = {};
      for (int64_t k = 0; k < K; ++k) {
        const float* word = a.data + m * a.row_stride + k * a.k_stride;
        const float* at = b.data + k * b.row_stride + n0;
        for (int64_t half = 0; half < per_word; ++half) {
          const bool two = per_word == 2;
          const float factor = two ? load1(ElemType::kBFloat16, word, half) : *word;
          if (__builtin_fabsf(factor) < kFloatMin) continue;
          for (int64_t n = 0; n < columns; ++n) {
            const float x = two ? load1(ElemType::kBFloat16, at + n, half) : at[n];
            sum[n] += static_cast<double>(factor) * x;
          }
        }
      }
      for (int64_t n = 0; n < columns; ++n) {
        float& x = c.row(m)[(n0 + n) * c_step];
        const float old = to.into == Into::kReplace ? 0.0f : x;
        const float scale = to.into == Into::kAddScaled ? to.row_scale[m] : 1.0f;
        x = static_cast<float>(sum[n] + static_cast<double>(old) * scale);
      }
    }
  }
}

}  // namespace
}  // namespace nsa::cpu
