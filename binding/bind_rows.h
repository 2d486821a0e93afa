// Filling by hand of the operators that read a cache.
#pragma once

#include <optional>
#include <vector>

#include "binding/generated/by_hand.h"
#include "cpu/nsa_decode/params.h"
#include "infer/decoding.h"

namespace nsa {

// Keys or values as the kernels find them; `table` as in check_block_table.
cpu::CacheView cache_view(const CheckedCall& call, size_t input, std::optional<size_t> table,
                          const CacheDims& dims, CacheLayout layout);

// Throws OpError where a page that a row of `lengths` tokens reads is none of the cache's. The
// contents of a table are seen here for the first time: the rules know shapes and lists.
void check_pages(const CheckedCall& call, size_t table, int64_t pages, int64_t page,
                 const int64_t* lengths, size_t rows);
void check_pages(const CheckedCall& call, size_t table, const CacheDims& dims,
                 const SeqList& lengths);

// Fills the sizes of a cache, and how many queries every row has. `counts` keeps them where
// actual_seq_qlen is absent.
void fill_rows(const CheckedCall& call, size_t q_lengths, const CacheDims& value, SeqList& counts,
               cpu::InferParams& p);

// The caches of one branch, with a page size and heads of their own.
template <class Positions>
CacheDims fill_caches(const CheckedCall& call, const Positions& in, int64_t heads,
                      cpu::CacheView& key, cpu::CacheView& value) {
  const CacheLayout layout = CacheLayout::kBSND;
  const CacheDims of_value = check_cache(call.context, in.value, layout, heads);
  key = cache_view(call, in.key, in.block_table, check_cache(call.context, in.key, layout, heads),
                   layout);
  value = cache_view(call, in.value, in.block_table, of_value, layout);
  return of_value;
}

}  // namespace nsa
