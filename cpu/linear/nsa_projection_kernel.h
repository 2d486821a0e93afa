// Products of whole matrices. The right operand is packed in panels first, shared by all threads;
// rows of the left one are packed by the work item that multiplies them.
#pragma once

#include "cpu/engine/threads/team.h"
#include "cpu/linear/nsa_projection_pack.h"

namespace nsa::cpu {
namespace {

struct ProductBuffers {  // of a thread
  float* left;           // [kProductRows, left_row], of a RowProduct
  float* sums;           // [kProductRows, columns of some panels]
  int64_t left_row;
  // Where operands are split.
  float* left_floats;  // [kProductRows, kProductWords] the left operand's
  float* panel;        // [kProductWords, kPanel] of the right one
  float* whole_sums;   // [kProductRows, kPanel]

  static ProductBuffers carve(Arena& arena, int64_t left_words) {
    ProductBuffers b{};
    // Rows a power of two apart would share few sets of the caches.
    b.left_row = left_words + 16;
    if (left_words > 0) b.left = arena.take<float>(kProductRows * b.left_row);
    b.sums = arena.take<float>(kProductRows * kProductPanels * kPanel);
    if (ExactOperands::kForm.terms == 1) return b;
    b.left_floats = arena.take<float>(kProductRows * kProductWords);
    b.panel = arena.take<float>(kProductWords * kPanel);
    b.whole_sums = arena.take<float>(kProductRows * kPanel);
    return b;
  }
};

// kPanel columns of sums [rows, ld] = left times a panel. Partial sums of kProductWords words are
// added in order.
template <class Variant>
inline void multiply_panel(int64_t rows, int64_t depth, Operand left, const float* panel,
                           float* sums, int64_t ld) {
  if (depth == 0) {
    for (int64_t r = 0; r < rows; ++r) fill(sums + r * ld, kPanel, 0.0f);
  }
  if constexpr (Variant::kForm.terms > 1) {
    constexpr int64_t tile = Variant::kForm.align;
    for (int64_t w = 0; w < depth; w += kBf16x3Words) {
      Variant::multiply({rows, kPanel, min64(kBf16x3Words, depth - w)},
                        {left.data + w, left.row_stride, 1}, {panel + w * tile, depth * tile},
                        {sums, ld}, w > 0);
    }
  } else {
    for (int64_t w = 0; w < depth; w += kProductWords) {
      Lanes right = packed_lanes<Variant>(panel, depth, kPanel);
      right.data += w * right.row_stride;
      matmul<typename Variant::Step>(
          {rows, kPanel, min64(kProductWords, depth - w)},
          {left.data + w * left.k_stride, left.row_stride, left.k_stride}, right, {sums, ld},
          {w == 0 ? Into::kReplace : Into::kAdd});
    }
  }
}

// Which of several matrices a panel or tile of all of them belongs to, and where it begins.
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

// Elements [k0, k1) of the contraction with source i, of one panel of the weights: from word
// `first` of dst [depth, kPanel] on.
template <class Variant>
inline void pack_weight(const RowProduct& p, int64_t panel, int64_t i, int64_t k0, int64_t k1,
                        int64_t first, int64_t depth, float* dst) {
  constexpr WordForm form = Variant::kForm;
  const Place at = target_of(p, panel);
  const int64_t columns = p.targets[at.matrix].columns;
  if (p.transposed) {
    const ConstMatrix weight{p.weights[at.matrix], p.weight_type, p.sources[i].columns};
    return pack_panel_of_rows<Variant>(weight, columns, at.first, k0, k1, first, depth, dst);
  }
  const ConstMatrix weight{p.weights[i], p.weight_type, columns};
  for (int64_t w = 0; w < form.words(k1 - k0) / form.terms; ++w) {
    pack_word_of_rows<Variant>(weight, k0, k1 - k0, w, at.first, min64(kPanel, columns - at.first),
                               panel_word<Variant>(dst, depth, first / form.terms + w));
  }
}

// One panel of the weights.
template <class Variant>
inline void pack_weights(const RowProduct& p, int64_t panel, int64_t depth, float* dst) {
  int64_t first = 0;
  for (int64_t i = 0; i < p.num_sources; ++i) {
    const int64_t columns = p.sources[i].columns;
    pack_weight<Variant>(p, panel, i, 0, columns, first, depth, dst);
    first += words<Variant>(columns);
  }
}

// Rows [t0, t0 + rows) of all sources, one after the other.
template <class Variant>
inline void pack_sources(const RowProduct& p, int64_t t0, int64_t rows, const ProductBuffers& b) {
  for (int64_t r = 0; r < rows; ++r) {
    float* dst = b.left + r * b.left_row;
    for (int64_t i = 0; i < p.num_sources; ++i) {
      const ConstMatrix& source = p.sources[i];
      pack_words<Variant>(source.type, source.data, (t0 + r) * source.columns, source.columns, dst);
      dst += words<Variant>(source.columns);
    }
  }
}

// NaN or infinite sums, of terms that are such or of values out of the range of bf16x3, become
// what the product of floats gives; the others stay as they are. pack(k0, k1) packs elements [k0,
// k1) of both operands, at most kProductWords: the right one at b.panel, and gives the left one.
template <class Pack>
inline void mend_panel(int64_t rows, int64_t depth, const ProductBuffers& b, float* sums,
                       int64_t ld, const Pack& pack) {
  bool finite = true;
  for (int64_t r = 0; r < rows; ++r) finite = all_finite(sums + r * ld, kPanel) && finite;
  if (finite) return;
  for (int64_t k = 0; k < depth; k += kProductWords) {
    const int64_t count = min64(kProductWords, depth - k);
    const Operand left = pack(k, k + count);
    matmul<FloatStep>({rows, kPanel, count}, left, {b.panel, kPanel}, {b.whole_sums, kPanel},
                      {k == 0 ? Into::kReplace : Into::kAdd});
  }
  for (int64_t r = 0; r < rows; ++r) {
    float *row = sums + r * ld, *whole = b.whole_sums + r * kPanel;
    for (int64_t j = 0; j < kPanel; ++j) row[j] = row[j] * 0.0f == 0.0f ? row[j] : whole[j];
  }
}

inline void mend_rows(const RowProduct& p, int64_t t0, int64_t rows, int64_t panel,
                      const ProductBuffers& b) {
  int64_t depth = 0;
  for (int64_t i = 0; i < p.num_sources; ++i) depth += p.sources[i].columns;
  mend_panel(rows, depth, b, b.sums, kPanel, [&](int64_t k0, int64_t k1) {
    int64_t first = 0;  // of the source
    for (int64_t i = 0; i < p.num_sources; ++i) {
      const ConstMatrix& source = p.sources[i];
      const int64_t begin = max64(k0, first), end = min64(k1, first + source.columns);
      if (begin < end) {
        for (int64_t r = 0; r < rows; ++r)
          to_float(source.type, source.data, (t0 + r) * source.columns + begin - first, end - begin,
                   b.left_floats + r * kProductWords + begin - k0);
        pack_weight<FloatOperands>(p, panel, i, begin - first, end - first, begin - k0,
                                   kProductWords, b.panel);
      }
      first += source.columns;
    }
    return Operand{b.left_floats, kProductWords, 1};
  });
}

inline void write_panel(const Matrix& target, int64_t t0, int64_t rows, int64_t n0,
                        const float* sums) {
  const int64_t n = min64(kPanel, target.columns - n0);
  for (int64_t r = 0; r < rows; ++r) {
    from_float(target.type, sums + r * kPanel, n, target.data, (t0 + r) * target.columns + n0);
  }
}

template <class Variant>
void run_row_product(const RowProduct& p, const ProductScratch& s, int threads) {
  const int64_t depth = p.words(Variant::kForm), in_split = ceil_div(p.panels, p.splits);
  const int64_t row_tiles = ceil_div(p.T, kProductRows);
  parallel_region(threads, [&](const Member& member) {
    Arena arena{s.threads + member.number * s.thread_size};
    const ProductBuffers b = ProductBuffers::carve(arena, depth);
    Variant::begin();
    member.dynamic_for(p.panels, [&](int64_t panel) {
      pack_weights<Variant>(p, panel, depth, s.right + panel * depth * kPanel);
    });
    member.barrier();
    member.dynamic_for(row_tiles * p.splits, [&](int64_t work_item) {
      const int64_t t0 = work_item / p.splits * kProductRows, rows = min64(kProductRows, p.T - t0);
      const int64_t first = work_item % p.splits * in_split;
      pack_sources<Variant>(p, t0, rows, b);
      for (int64_t panel = first; panel < min64(first + in_split, p.panels); ++panel) {
        multiply_panel<Variant>(rows, depth, {b.left, b.left_row, 1},
                                s.right + panel * depth * kPanel, b.sums, kPanel);
        if constexpr (Variant::kForm.terms > 1) mend_rows(p, t0, rows, panel, b);
        const Place at = target_of(p, panel);
        write_panel(p.targets[at.matrix], t0, rows, at.first, b.sums);
      }
    });
    Variant::end();
  });
}

// dy of a tile of rows of dw: word w of row r of the tile.
template <class Variant>
inline Operand dy_of_tile(const ProductScratch& s, int64_t tile, int64_t depth) {
  if (kRowsOnly<Variant>) return {s.left + tile * kProductRows * s.left_row, s.left_row, 1};
  return {s.left + tile * kProductRows * depth, 1, kProductRows};
}

// kForm.align words, from word w0 on, of the bf16x3 terms of `tokens` tokens from t0 on, of x and
// of every dy.
template <class Variant>
inline void pack_words_of_tokens(const WeightProduct& p, const ProductScratch& s, int64_t t0,
                                 int64_t tokens, int64_t w0) {
  constexpr WordForm form = Variant::kForm;
  const int64_t depth = words<Variant>(tokens), past = w0 + form.align;
  for (int64_t panel = 0; panel < p.panels(); ++panel) {
    const int64_t k0 = panel * kPanel;
    float* dst = s.right + panel * depth * kPanel;
    for (int64_t w = w0; w < past; ++w) {
      pack_word_of_rows<Variant>(p.x, t0, tokens, w, k0, min64(kPanel, p.x.columns - k0),
                                 panel_word<Variant>(dst, depth, w));
    }
  }
  int64_t tile = 0;
  for (int64_t i = 0; i < p.count; ++i) {
    for (int64_t n0 = 0; n0 < p.dy[i].columns; n0 += kProductRows, ++tile) {
      const Operand at = dy_of_tile<Variant>(s, tile, depth);
      float* dst = s.left + (at.data - s.left) + form.word(w0) * at.k_stride;
      const int64_t n = min64(kProductRows, p.dy[i].columns - n0);
      if constexpr (kRowsOnly<Variant>) {
        constexpr int64_t ld = kProductRows + 16;
        alignas(64) float lines[form.terms * form.align * ld];
        for (int64_t w = w0; w < past; ++w)
          pack_word_of_rows<Variant>(p.dy[i], t0, tokens, w, n0, n,
                                     {lines + (w - w0) * ld, kProductRows, ld});
        for (int64_t w = 0; w < form.terms * form.align; w += W)
          for (int64_t r = 0; r < kProductRows; r += W)
            Variant::transpose(lines + w * ld + r, ld, dst + r * at.row_stride + w, at.row_stride);
        continue;
      }
      pack_word_of_rows<Variant>(p.dy[i], t0, tokens, w0, n0, n, {dst, kProductRows, 0});
    }
  }
}

// Where row n of dw i is summed.
inline float* sums_of(const WeightProduct& p, const ProductScratch& s, int64_t i, int64_t n) {
  if (p.dw_type == ElemType::kFloat32) return static_cast<float*>(p.dw[i]) + n * p.x.columns;
  for (int64_t before = 0; before < i; ++before) n += p.dy[before].columns;
  return s.sums + n * p.x.columns;
}

// Adds the packed tokens' share, of `tokens` from t0 on, to a tile of rows; the first share
// replaces what is there.
template <class Variant>
inline void add_weight_tile(const WeightProduct& p, const ProductScratch& s,
                            const ProductBuffers& b, int64_t t0, int64_t tokens, int64_t tile,
                            int64_t first) {
  const int64_t depth = words<Variant>(tokens);
  const Place at = place_of(tile, kProductRows, [&](int64_t i) { return p.dy[i].columns; });
  const int64_t rows = min64(kProductRows, p.dy[at.matrix].columns - at.first);
  constexpr int64_t ld = kProductPanels * kPanel;
  for (int64_t n = 0; n < min64(kProductPanels, p.panels() - first); ++n) {
    multiply_panel<Variant>(rows, depth, dy_of_tile<Variant>(s, tile, depth),
                            s.right + (first + n) * depth * kPanel, b.sums + n * kPanel, ld);
    if constexpr (Variant::kForm.terms > 1) {
      const ConstMatrix& dy = p.dy[at.matrix];
      const int64_t k0 = (first + n) * kPanel, columns = min64(kPanel, p.x.columns - k0);
      mend_panel(rows, tokens, b, b.sums + n * kPanel, ld, [&](int64_t from, int64_t to) {
        for (int64_t t = from; t < to; ++t) {
          const int64_t k = t - from;
          pack_word_of_rows<FloatOperands>(dy, t0, tokens, t, at.first, rows,
                                           {b.left_floats + k * kProductRows, kProductRows, 0});
          pack_word_of_rows<FloatOperands>(p.x, t0, tokens, t, k0, columns,
                                           {b.panel + k * kPanel, kPanel, 0});
        }
        return Operand{b.left_floats, 1, kProductRows};
      });
    }
  }
  const int64_t k0 = first * kPanel, n = min64(ld, p.x.columns - k0);
  for (int64_t r = 0; r < rows; ++r) {
    float* dst = sums_of(p, s, at.matrix, at.first + r) + k0;
    if (t0 == 0) {
      __builtin_memcpy(dst, b.sums + r * ld, static_cast<size_t>(n) * sizeof(float));
    } else {
      add_to(dst, b.sums + r * ld, n);
    }
  }
}

template <class Variant>
void run_weight_product(const WeightProduct& p, const ProductScratch& s, int threads) {
  const int64_t splits = ceil_div(p.panels(), kProductPanels);
  parallel_region(threads, [&](const Member& member) {
    Arena arena{s.threads + member.number * s.thread_size};
    const ProductBuffers b = ProductBuffers::carve(arena, 0);
    Variant::begin();
    // Once without tokens, for zeros.
    for (int64_t t0 = 0; t0 == 0 || t0 < p.T; t0 += kProductTokens) {
      constexpr WordForm form = Variant::kForm;
      const int64_t tokens = min64(kProductTokens, p.T - t0);
      const int64_t count = form.words(tokens) / form.terms;
      constexpr int64_t kWords = 16 / form.align * form.align;  // at once
      member.dynamic_for(ceil_div(count, kWords), [&](int64_t n) {
        for (int64_t w = n * kWords; w < min64((n + 1) * kWords, count); w += form.align)
          pack_words_of_tokens<Variant>(p, s, t0, tokens, w);
      });
      member.barrier();
      member.dynamic_for(p.tiles * splits, [&](int64_t work_item) {
        add_weight_tile<Variant>(p, s, b, t0, tokens, work_item / splits,
                                 work_item % splits * kProductPanels);
      });
      member.barrier();
    }
    Variant::end();
    for (int64_t i = 0; i < (p.dw_type == ElemType::kFloat32 ? 0 : p.count); ++i) {
      member.static_for(p.dy[i].columns, [&](int64_t n) {
        from_float(p.dw_type, sums_of(p, s, i, n), p.x.columns, p.dw[i], n * p.x.columns);
      });
    }
  });
}

int64_t product_thread_size(int64_t left_words) {
  return measured([&](Arena& arena) { ProductBuffers::carve(arena, left_words); });
}
void row_product(const RowProduct& p, const ProductScratch& s, int threads) {
  if (p.operands == ElemType::kFloat32) return run_row_product<ExactOperands>(p, s, threads);
  run_row_product<RoundedOperands>(p, s, threads);
}
void weight_product(const WeightProduct& p, const ProductScratch& s, int threads) {
  if (p.operands == ElemType::kFloat32) return run_weight_product<ExactOperands>(p, s, threads);
  run_weight_product<RoundedOperands>(p, s, threads);
}

}  // namespace
}  // namespace nsa::cpu
