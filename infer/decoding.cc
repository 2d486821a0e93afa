#include "infer/decoding.h"

#include <algorithm>

#include "infer/attention.h"

namespace nsa {

CacheDims check_cache(const Context& c, size_t input, CacheLayout layout, int64_t heads) {
  const TensorDesc& desc = c.in(input);
  if (!desc.known_rank) return {kUnknownDim, kUnknownDim, heads, kUnknownDim};
  CacheDims dims{};
  if (heads >= 0 && desc.shape.size() == 3) {
    const int64_t width = c.dim(input, 2);
    if (width >= 0 && (width == 0 || width % heads != 0)) {
      c.fail_value(c.name(input),
                   "of a last dimension that is a positive multiple of key_value_head_num (" +
                       std::to_string(heads) + ")",
                   format_shape(desc.shape));
    }
    dims = {c.dim(input, 0), c.dim(input, 1), heads, width >= 0 ? width / heads : kUnknownDim};
  } else {
    const bool tokens_first = layout == CacheLayout::kBSND;
    c.require_rank(input, 4, tokens_first ? "(pages, page, N2, D)" : "(pages, N2, page, D)");
    dims = {c.dim(input, 0), c.dim(input, tokens_first ? 1 : 2), c.dim(input, tokens_first ? 2 : 1),
            c.dim(input, 3)};
    if (heads >= 0 && dims.heads >= 0 && dims.heads != heads) {
      c.fail_value("key_value_head_num",
                   std::string("N2 of ") + c.name(input) + " (" + std::to_string(dims.heads) + ")",
                   std::to_string(heads));
    }
  }
  for (size_t axis = 1; axis < desc.shape.size(); ++axis)
    c.require_positive_dim(input, axis, "every dimension but the first");
  return dims;
}

CacheDims check_cache_pair(const Context& c, size_t key, size_t value, const QueryDims& query,
                           CacheLayout layout, int64_t heads) {
  const CacheDims k = check_cache(c, key, layout, heads), v = check_cache(c, value, layout, heads);
  const auto same = [&](int64_t ours, int64_t theirs, const char* what) {
    if (ours < 0 || theirs < 0 || ours == theirs) return;
    c.fail_value(
        c.name(value),
        std::string("of the ") + what + " of " + c.name(key) + " (" + std::to_string(ours) + ")",
        std::to_string(theirs));
  };
  same(k.pages, v.pages, "pages");
  same(k.page, v.page, "tokens per page");
  same(k.heads, v.heads, "heads");
  if (k.dim >= 0 && query.d >= 0 && k.dim != query.d) {
    c.fail_value(c.name(key), "of the head size D of query (" + std::to_string(query.d) + ")",
                 std::to_string(k.dim));
  }
  require_groups(c, query.n1, known_of(k.heads, v.heads));
  return {known_of(k.pages, v.pages), known_of(k.page, v.page), known_of(k.heads, v.heads), v.dim};
}

void check_page_size(const Context& c, const CacheDims& cache, int64_t page_block_size) {
  if (cache.page < 0 || cache.page == page_block_size) return;
  c.fail_value("page_block_size",
               "the tokens of a page of the cache (" + std::to_string(cache.page) + ")",
               std::to_string(page_block_size));
}

void check_block_table(const Context& c, size_t table, size_t rows, const CacheDims& cache,
                       size_t cache_input) {
  const int64_t batch = c.list_length(rows);
  if (c.has(table)) {
    const std::vector<int64_t>& shape = c.in(table).shape;
    if (batch == 0 && !shape.empty() && shape[0] > 0) {
      c.fail_value(
          c.name(rows),
          std::string("as long as ") + c.name(table) + " (" + std::to_string(shape[0]) + ")",
          "an empty list");
    }
    c.require_shape(table, "(B, pages of a row)", {batch, kUnknownDim});
    c.require_positive_dim(table, 1, "pages of a row");
    return;
  }
  if (batch < 0 || cache.pages < 0 || batch == cache.pages) return;
  c.fail_value(c.name(cache_input),
               "of one page for each of the " + std::to_string(batch) + " rows of " + c.name(rows) +
                   " where " + c.name(table) + " is None",
               format_shape(c.in(cache_input).shape));
}

int64_t row_capacity(const Context& c, size_t table, const CacheDims& cache) {
  if (!c.has(table)) return cache.page;
  // A table may name a page many times, and positions are int32.
  return std::min<int64_t>(INT32_MAX, product({c.dim(table, 1), cache.page}));
}

void check_row_lengths(const Context& c, size_t lengths, int64_t capacity) {
  const SeqList* list = c.values(lengths);
  if (list == nullptr) return;
  for (size_t b = 0; b < list->size(); ++b) {
    const int64_t length = (*list)[b];
    if (length >= 0 && (capacity < 0 || length <= capacity)) continue;
    c.fail_value(c.name(lengths),
                 length < 0 ? ">= 0"
                            : "at most the " + std::to_string(capacity) +
                                  " tokens that a row of the cache holds",
                 std::to_string(length) + " at index " + std::to_string(b));
  }
}

SeqList check_row_counts(const Context& c, size_t q_lengths, size_t lengths, const QueryDims& query,
                         bool bounded) {
  const int64_t batch = c.list_length(lengths);
  if (c.has(q_lengths)) {
    if (!query.packed) c.fail_value(c.name(q_lengths), "None with layout 'BSND'", "a list");
    c.require_same_length(q_lengths, lengths);
  } else if (query.packed && batch >= 0 && query.tokens >= 0 &&
             query.tokens != (batch == 0 ? 0 : query.tokens / batch * batch)) {
    c.fail_value(c.name(q_lengths),
                 "given where T of query (" + std::to_string(query.tokens) +
                     ") is not the same number for each of " + std::to_string(batch) + " rows",
                 "None");
  }
  if (!query.packed && batch >= 0 && query.batch >= 0 && batch != query.batch) {
    c.fail_value(c.name(lengths), "as long as B of query (" + std::to_string(query.batch) + ")",
                 "length " + std::to_string(batch));
  }
  SeqList counts;
  if (c.has(q_lengths)) {
    if (c.values(q_lengths) == nullptr) return {};
    counts = *c.values(q_lengths);
    int64_t total = 0;
    for (size_t b = 0; b < counts.size(); ++b) {
      if (counts[b] < 0 || counts[b] > kLargestSize - total) {
        c.fail_value(c.name(q_lengths), counts[b] < 0 ? ">= 0" : "of a sum that is T of query",
                     std::to_string(counts[b]) + " at index " + std::to_string(b));
      }
      total += counts[b];
    }
    if (query.tokens >= 0 && total != query.tokens) {
      c.fail_value(c.name(q_lengths),
                   "of a sum that is T of query (" + std::to_string(query.tokens) + ")",
                   std::to_string(total));
    }
  } else {
    if (batch <= 0) return {};
    const int64_t each = !query.packed      ? query.per_row
                         : query.tokens < 0 ? kUnknownDim
                                            : query.tokens / batch;
    if (each < 0) return {};
    counts.assign(batch, each);
  }
  const SeqList* all = c.values(lengths);
  for (size_t b = 0; bounded && all != nullptr && b < counts.size(); ++b) {
    if (counts[b] <= (*all)[b]) continue;
    c.fail_value(c.name(lengths),
                 "at least the " + std::to_string(counts[b]) +
                     " queries of its row, whose tokens it counts, too",
                 std::to_string((*all)[b]) + " at index " + std::to_string(b));
  }
  return counts;
}

int64_t complete_windows(int64_t tokens, int64_t block_size, int64_t stride) {
  return tokens < block_size ? 0 : (tokens - block_size) / stride + 1;
}

}  // namespace nsa
