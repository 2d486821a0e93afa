// The two products of NsaProjection and its gradients, and how they are divided: by shapes only.
#pragma once

#include "cpu/linear/nsa_projection.h"

namespace nsa::cpu {

constexpr int64_t kPanel = 64;        // columns of a packed panel of the right operand
constexpr int64_t kProductRows = 96;  // of the left operand that pass over a panel
// Words of a contraction at once: those of a panel stay in the first-level cache while all rows
// pass over them.
constexpr int64_t kProductWords = 128;
// bf16x3 words of one sum, as many as it takes without loss: tiles come from the second-level
// cache, and sums are stored and added as rarely as possible.
constexpr int64_t kBf16x3Words = 1536;
// Work items that keep the processors of a large machine busy.
constexpr int64_t kProductWorkItems = 64;
constexpr int64_t kProductTokens = 2048;  // that are packed at once for the gradients of weights
constexpr int64_t kProductPanels = 4;     // of a work item of those

struct ConstMatrix {  // rows of `columns` elements without a gap
  const void* data;
  ElemType type;
  int64_t columns;
};
struct Matrix {
  void* data;
  ElemType type;
  int64_t columns;
};

// targets = sources times the weights: rows of several sources are one long row, and so are those
// of several targets; only one of both is more than one.
struct RowProduct {
  ConstMatrix sources[kMostWeights];
  Matrix targets[kMostWeights];
  const void* weights[kMostWeights];  // of the sources or of the targets
  ElemType weight_type, operands;
  bool transposed;  // the weights' columns belong to the source, else their rows
  int64_t num_sources, num_targets;
  int64_t T;
  int64_t panels;  // of all targets
  int64_t splits;  // into which they are divided

  int64_t words(WordForm form) const {
    int64_t sum = 0;
    for (int64_t i = 0; i < num_sources; ++i) sum += form.words(sources[i].columns);
    return sum;
  }
};

// Gradients of the weights: dw[n, k] = sum over t of dy[t, n] x[t, k].
struct WeightProduct {
  ConstMatrix dy[kMostWeights];
  ConstMatrix x;
  void* dw[kMostWeights];
  ElemType dw_type, operands;
  int64_t count, T;
  int64_t tiles;  // of kProductRows rows of all dw

  int64_t panels() const { return ceil_div(x.columns, kPanel); }
  int64_t tokens() const { return min64(kProductTokens, T); }  // packed at once
};

struct ProductScratch {
  float* left;       // of a WeightProduct: dy as words along the tokens
  float* right;      // panels [panel, words, kPanel]
  float* sums;       // of a WeightProduct whose dw is not float32: [N K] of all of them
  int64_t left_row;  // words between rows where the tokens of a row are neighbours
  char* threads;
  int64_t thread_size;
};

}  // namespace nsa::cpu
