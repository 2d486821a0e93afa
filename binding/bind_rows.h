// Shared binding of the operators that read a cache.
#pragma once

#include <optional>
#include <vector>

#include "binding/op_call.h"
#include "cpu/nsa_decode/params.h"
#include "infer/decoding.h"

namespace nsa {

// Keys or values as the kernels find them; `table` as in check_block_table.
cpu::CacheView cache_view(const CheckedCall& call, size_t input, std::optional<size_t> table,
                          const CacheDims& dims, CacheLayout layout);

// Throws OpError where a page that a row of `lengths` tokens reads is none of the cache's. The
// contents of a table are seen here for the first time: the rules know shapes and lists.
void check_pages(const CheckedCall& call, size_t table, const CacheDims& dims,
                 const std::vector<int64_t>& lengths);

// Queries, and how many every row has. `counts` keeps them where actual_seq_qlen is absent.
void fill_rows(const CheckedCall& call, size_t query, size_t q_lengths, size_t lengths,
               RowLayout layout, const CacheDims& value, std::vector<int64_t>& counts,
               cpu::InferParams& p);

std::vector<int64_t> list_values(const CheckedCall& call, size_t input);

}  // namespace nsa
