// Products of whole matrices. The right operand is packed in panels first, shared by all threads;
// rows of the left one are packed by the unit that multiplies them.
#pragma once

#include <omp.h>

#include "cpu/nsa_projection_pack.h"

namespace nsa::cpu {
namespace {

struct ProductBuffers {  // of a thread
  float* left;           // [kProductRows, left_row], of a RowProduct
  float* sums;           // [kProductRows, columns of some panels]
  int64_t left_row;

  static ProductBuffers carve(Arena& arena, int64_t left_words) {
    ProductBuffers b{};
    // Rows a power of two apart would share few sets of the caches.
    b.left_row = left_words + 16;
    if (left_words > 0) b.left = arena.take<float>(kProductRows * b.left_row);
    b.sums = arena.take<float>(kProductRows * kProductPanels * kPanel);
    return b;
  }
};

// kPanel columns of sums [rows, ld] = left times a panel. Partial sums of kProductWords words are
// added in order.
template <class Path>
inline void multiply_panel(int64_t rows, int64_t depth, Operand left, const float* panel,
                           float* sums, int64_t ld) {
  if (depth == 0) {
    for (int64_t r = 0; r < rows; ++r) fill(sums + r * ld, kPanel, 0.0f);
  }
  for (int64_t w = 0; w < depth; w += kProductWords) {
    matmul<typename Path::Step>(
        rows, kPanel, min64(kProductWords, depth - w),
        Operand{left.data + w * left.k_stride, left.row_stride, left.k_stride}, panel + w * kPanel,
        kPanel, sums, ld, w == 0 ? Into::kReplace : Into::kAdd);
  }
}

// Which of several matrices a panel or block of all of them belongs to, and where it begins.
struct Place {
  int64_t matrix, first;
};
template <class Columns>
inline Place place_of(int64_t index, int64_t width, const Columns& columns) {
  int64_t matrix = 0;
  for (int64_t here; index >= (here = ceil_div(columns(matrix), width)); ++matrix) index -= here;
  return {matrix, index * width};
}

inline Place target_of(const RowProduct& p, int64_t panel) {
  return place_of(panel, kPanel, [&](int64_t i) { return p.targets[i].columns; });
}

// One panel of the weights.
template <class Path>
inline void pack_weights(const RowProduct& p, int64_t panel, float* dst) {
  const Place at = target_of(p, panel);
  const int64_t columns = p.targets[at.matrix].columns;
  if (p.transposed) {
    const ConstMatrix weight{p.weights[at.matrix], p.weight_type, p.sources[0].columns};
    return pack_panel_of_rows<Path>(weight, columns, at.first, dst);
  }
  for (int64_t i = 0; i < p.num_sources; ++i) {
    const ConstMatrix weight{p.weights[i], p.weight_type, columns};
    const int64_t rows = p.sources[i].columns;
    for (int64_t w = 0; w < words<Path>(rows); ++w, dst += kPanel) {
      pack_word_of_rows<Path>(weight, 0, rows, w, at.first, min64(kPanel, columns - at.first),
                              kPanel, dst);
    }
  }
}

// Rows [t0, t0 + rows) of all sources, one after the other.
template <class Path>
inline void pack_sources(const RowProduct& p, int64_t t0, int64_t rows, const ProductBuffers& b) {
  for (int64_t r = 0; r < rows; ++r) {
    float* dst = b.left + r * b.left_row;
    for (int64_t i = 0; i < p.num_sources; ++i) {
      const ConstMatrix& source = p.sources[i];
      pack_words<Path>(source.type, source.data, (t0 + r) * source.columns, source.columns, dst);
      dst += words<Path>(source.columns);
    }
  }
}

inline void write_panel(const Matrix& target, int64_t t0, int64_t rows, int64_t n0,
                        const float* sums) {
  const int64_t n = min64(kPanel, target.columns - n0);
  for (int64_t r = 0; r < rows; ++r) {
    from_float(target.type, sums + r * kPanel, n, target.data, (t0 + r) * target.columns + n0);
  }
}

template <class Path>
void run_row_product(const RowProduct& p, const ProductScratch& s, int threads) {
  const int64_t depth = p.words(Path::kForm), in_group = ceil_div(p.panels, p.groups);
  const int64_t row_blocks = ceil_div(p.T, kProductRows);
#pragma omp parallel num_threads(threads)
  {
    Arena arena{s.threads + omp_get_thread_num() * s.thread_size};
    const ProductBuffers b = ProductBuffers::carve(arena, depth);
    Path::begin();
#pragma omp for schedule(dynamic, 1)
    for (int64_t panel = 0; panel < p.panels; ++panel)
      pack_weights<Path>(p, panel, s.right + panel * depth * kPanel);
#pragma omp for schedule(dynamic, 1)
    for (int64_t unit = 0; unit < row_blocks * p.groups; ++unit) {
      const int64_t t0 = unit / p.groups * kProductRows, rows = min64(kProductRows, p.T - t0);
      const int64_t first = unit % p.groups * in_group;
      pack_sources<Path>(p, t0, rows, b);
      for (int64_t panel = first; panel < min64(first + in_group, p.panels); ++panel) {
        multiply_panel<Path>(rows, depth, {b.left, b.left_row, 1}, s.right + panel * depth * kPanel,
                             b.sums, kPanel);
        const Place at = target_of(p, panel);
        write_panel(p.targets[at.matrix], t0, rows, at.first, b.sums);
      }
    }
    Path::end();
  }
}

// dy of a block of rows of dw: word w of row r of the block.
template <class Path>
inline Operand dy_of_block(const ProductScratch& s, int64_t block, int64_t depth) {
  if (kRowsOnly<Path>) return {s.left + block * kProductRows * s.left_row, s.left_row, 1};
  return {s.left + block * kProductRows * depth, 1, kProductRows};
}

// Word w of `tokens` tokens from t0 on, of x and of every dy.
template <class Path>
inline void pack_word_of_tokens(const WeightProduct& p, const ProductScratch& s, int64_t t0,
                                int64_t tokens, int64_t w) {
  const int64_t depth = words<Path>(tokens);
  for (int64_t panel = 0; panel < p.panels(); ++panel) {
    const int64_t k0 = panel * kPanel;
    pack_word_of_rows<Path>(p.x, t0, tokens, w, k0, min64(kPanel, p.x.columns - k0), kPanel,
                            s.right + (panel * depth + w) * kPanel);
  }
  int64_t block = 0;
  for (int64_t i = 0; i < p.count; ++i) {
    for (int64_t n0 = 0; n0 < p.dy[i].columns; n0 += kProductRows, ++block) {
      const Operand at = dy_of_block<Path>(s, block, depth);
      float* dst = s.left + (at.data - s.left) + w * at.k_stride;
      const int64_t n = min64(kProductRows, p.dy[i].columns - n0);
      if (at.row_stride == 1) {
        pack_word_of_rows<Path>(p.dy[i], t0, tokens, w, n0, n, kProductRows, dst);
        continue;
      }
      alignas(64) float line[kProductRows];
      pack_word_of_rows<Path>(p.dy[i], t0, tokens, w, n0, n, kProductRows, line);
      for (int64_t r = 0; r < kProductRows; ++r) dst[r * at.row_stride] = line[r];
    }
  }
}

// Where row n of dw i is summed.
inline float* sums_of(const WeightProduct& p, const ProductScratch& s, int64_t i, int64_t n) {
  if (p.dw_type == ElemType::kFloat32) return static_cast<float*>(p.dw[i]) + n * p.x.columns;
  for (int64_t before = 0; before < i; ++before) n += p.dy[before].columns;
  return s.sums + n * p.x.columns;
}

// Adds the packed tokens' share to a block of rows; the first share replaces what is there.
template <class Path>
inline void add_weight_block(const WeightProduct& p, const ProductScratch& s,
                             const ProductBuffers& b, int64_t depth, int64_t block, int64_t first,
                             bool replace) {
  const Place at = place_of(block, kProductRows, [&](int64_t i) { return p.dy[i].columns; });
  const int64_t rows = min64(kProductRows, p.dy[at.matrix].columns - at.first);
  constexpr int64_t ld = kProductPanels * kPanel;
  for (int64_t n = 0; n < min64(kProductPanels, p.panels() - first); ++n) {
    multiply_panel<Path>(rows, depth, dy_of_block<Path>(s, block, depth),
                         s.right + (first + n) * depth * kPanel, b.sums + n * kPanel, ld);
  }
  const int64_t k0 = first * kPanel, n = min64(ld, p.x.columns - k0);
  for (int64_t r = 0; r < rows; ++r) {
    float* dst = sums_of(p, s, at.matrix, at.first + r) + k0;
    if (replace) {
      __builtin_memcpy(dst, b.sums + r * ld, static_cast<size_t>(n) * sizeof(float));
    } else {
      add_to(dst, b.sums + r * ld, n);
    }
  }
}

template <class Path>
void run_weight_product(const WeightProduct& p, const ProductScratch& s, int threads) {
  const int64_t groups = ceil_div(p.panels(), kProductPanels);
#pragma omp parallel num_threads(threads)
  {
    Arena arena{s.threads + omp_get_thread_num() * s.thread_size};
    const ProductBuffers b = ProductBuffers::carve(arena, 0);
    Path::begin();
    // Once without tokens, for zeros.
    for (int64_t t0 = 0; t0 == 0 || t0 < p.T; t0 += kProductTokens) {
      const int64_t tokens = min64(kProductTokens, p.T - t0), depth = words<Path>(tokens);
#pragma omp for schedule(dynamic, 16)
      for (int64_t w = 0; w < depth; ++w) pack_word_of_tokens<Path>(p, s, t0, tokens, w);
#pragma omp for schedule(dynamic, 1)
      for (int64_t unit = 0; unit < p.blocks * groups; ++unit) {
        add_weight_block<Path>(p, s, b, depth, unit / groups, unit % groups * kProductPanels,
                               t0 == 0);
      }
    }
    Path::end();
    for (int64_t i = 0; i < (p.dw_type == ElemType::kFloat32 ? 0 : p.count); ++i) {
#pragma omp for schedule(static) nowait
      for (int64_t n = 0; n < p.dy[i].columns; ++n) {
        from_float(p.dw_type, sums_of(p, s, i, n), p.x.columns, p.dw[i], n * p.x.columns);
      }
    }
  }
}

int64_t product_thread_size(int64_t left_words) {
  return measured([&](Arena& arena) { ProductBuffers::carve(arena, left_words); });
}
void row_product(const RowProduct& p, const ProductScratch& s, int threads) {
  if (p.operands == ElemType::kFloat32) return run_row_product<FloatOperands>(p, s, threads);
  run_row_product<RoundedOperands>(p, s, threads);
}
void weight_product(const WeightProduct& p, const ProductScratch& s, int threads) {
  if (p.operands == ElemType::kFloat32) return run_weight_product<FloatOperands>(p, s, threads);
  run_weight_product<RoundedOperands>(p, s, threads);
}

}  // namespace
}  // namespace nsa::cpu
