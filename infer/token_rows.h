// Rules that the operators share that select tokens: queries and keys in batches or packed, the
// lists that say how many of them there are, and keys in pages.
#pragma once

#include <optional>
#include <vector>

#include "infer/check.h"

namespace nsa {

// Positions of the inputs, and the layouts; `pages` is absent where an operator takes none.
struct TokenInputs {
  size_t query, key, q_lengths, k_lengths;
  TokenLayout of_query;
  KeyLayout of_key;
  std::optional<size_t> pages;
  // How the operator names the layout of its keys, heads of queries and their size.
  const char *key_layout = "layout_key", *heads = "H", *dim = "d";
  const char* query_layout = "layout_query";  // that of both, if it is the same name
};

// -1 where unknown.
struct TokenDims {
  bool packed;               // TND: rows one after the other; otherwise [B, Sq]
  int64_t rows;              // T1
  int64_t batch, per_batch;  // B, Sq
  int64_t heads, key_heads, d;

  // [T1, ...] or [B, Sq, ...] with the given last dimensions.
  std::vector<int64_t> shape(std::vector<int64_t> rest) const;
};

// query [B, Sq, H, d] or [T1, H, d]; key [B, Sk, N2, d], [T2, N2, d] or [pages, page, N2, d]; the
// layouts, the lists and the table.
TokenDims check_token_rows(const Context& c, const TokenInputs& in);

// A tensor that lies as the keys do, with a last dimension of its own, which it gives.
int64_t check_like_key(const Context& c, size_t input, size_t key, const char* last);

// An input [.., last], of the dimensions of the query before that.
void require_token_shape(const Context& c, size_t input, const TokenDims& dims,
                         std::vector<int64_t> rest, const char* packed_axes, const char* axes);

}  // namespace nsa
