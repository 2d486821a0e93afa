// Rules that the operators share that read a cache: queries of rows of their own lengths, keys
// and values in pages or in one piece per row.
#pragma once

#include "infer/sizes.h"

namespace nsa {

// -1 where unknown.
struct QueryDims {
  bool packed;      // TND: the rows' queries one after another; otherwise BSND
  int64_t tokens;   // T of TND
  int64_t batch;    // B of BSND
  int64_t per_row;  // S of BSND
  int64_t n1, d;
};

struct RowSizes {
  NSA_SIZES(T, N1, D, B, S)
};

// query, whose shapes are in the order of RowLayout, as those of all tensors that lie like it.
template <class Positions>
QueryDims match_row_queries(const Positions& in, RowLayout layout, Sizes& sizes) {
  sizes.set_form(static_cast<size_t>(layout));
  sizes.match({in.query});
  const auto named = sizes.as<RowSizes>(in);
  return {layout == RowLayout::kTND, named.T, named.B, named.S, named.N1, named.D};
}

// Where the tokens of one of the caches stand. Heads may be next to each other in a token ("BSND":
// [pages, page, N2, D], or [pages, page, N2 * D] where heads are given) or tokens in a head
// ("BNSD": [pages, N2, page, D]).
struct CacheDims {
  int64_t pages, page, heads, dim;
};

// `heads`: those of a cache without a dimension for them, -1 where it must have one.
CacheDims check_cache(const Context& c, size_t input, CacheLayout layout, int64_t heads);

// Keys and values of the same tokens: D of the query, the same pages; N1 is a multiple of N2.
CacheDims check_cache_pair(const Context& c, size_t key, size_t value, const QueryDims& query,
                           CacheLayout layout, int64_t heads);

// page_block_size is what the shape of the cache says.
void check_page_size(const Context& c, const CacheDims& cache, int64_t page_block_size);

// block_table int32 [B, places], with B the length of the list `rows`; without it there is one page
// for every row.
void check_block_table(const Context& c, size_t table, size_t rows, const CacheDims& cache,
                       size_t cache_input);

// Tokens of a row that the cache has place for; -1 where unknown.
int64_t row_capacity(const Context& c, size_t table, const CacheDims& cache);

// A list of one length per row, in [0, capacity]; a negative capacity is unknown.
void check_row_lengths(const Context& c, size_t lengths, int64_t capacity);

// Queries of every row from actual_seq_qlen, a list of one number per row, or from the shape of the
// query; empty where they are not known. A row has at most as many as `lengths` says tokens.
SeqList check_row_counts(const Context& c, size_t q_lengths, size_t lengths, const QueryDims& query,
                         bool bounded);

// Windows that are complete in a row.
int64_t complete_windows(int64_t tokens, int64_t block_size, int64_t stride);

}  // namespace nsa
