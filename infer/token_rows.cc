#include "infer/token_rows.h"

namespace nsa {

namespace {

void require_given(const Context& c, size_t input, const std::string& attr, const char* layout) {
  if (c.has(input)) return;
  c.fail_value(c.name(input), "given with " + attr + "='" + layout + "'", "None");
}

// One length for each batch element, at most `capacity`, which may be unknown.
void check_lengths(const Context& c, size_t list, int64_t batch, int64_t capacity,
                   const char* of_what) {
  if (!c.has(list)) return;
  const int64_t length = c.list_length(list);
  if (length >= 0 && batch >= 0 && length != batch) {
    c.fail_value(c.name(list),
                 "of one length for each of the " + std::to_string(batch) + " batch elements",
                 std::to_string(length) + " of them");
  }
  const SeqList* values = c.values(list);
  if (values == nullptr) return;
  for (size_t b = 0; b < values->size(); ++b) {
    const int64_t value = (*values)[b];
    if (value >= 0 && (capacity < 0 || value <= capacity)) continue;
    c.fail_value(c.name(list),
                 value < 0
                     ? ">= 0"
                     : std::string("at most ") + of_what + " (" + std::to_string(capacity) + ")",
                 std::to_string(value) + " at index " + std::to_string(b));
  }
}

// Keys in pages, and the table that names those of each batch element.
void check_paged_keys(const Context& c, const TokenInputs& in, size_t table, int64_t batch) {
  require_given(c, in.k_lengths, in.key_layout, "PA_BSND");
  require_given(c, table, in.key_layout, "PA_BSND");
  c.require_shape(table, "(B, pages of a batch element)", {batch, kUnknownDim});
  c.require_positive_dim(in.key, 1, "tokens of a page");
  const int64_t capacity = product({c.dim(table, 1), c.dim(in.key, 1)});
  check_lengths(c, in.k_lengths, batch, capacity, "what the pages of a batch element hold");
  // A table may name a page many times, and positions are int32.
  check_lengths(c, in.k_lengths, batch, INT32_MAX, "the largest position");
}

}  // namespace

std::vector<int64_t> TokenDims::shape(std::vector<int64_t> rest) const {
  std::vector<int64_t> all =
      packed ? std::vector<int64_t>{rows} : std::vector<int64_t>{batch, per_batch};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

TokenDims check_token_rows(const Context& c, const TokenInputs& in) {
  const bool paged = in.of_key == KeyLayout::kPaged, packed_keys = in.of_key == KeyLayout::kTND;
  if (paged && !in.pages) c.fail_value(in.key_layout, "one of 'BSND', 'TND'", "'PA_BSND'");
  TokenDims dims{};
  dims.packed = in.of_query == TokenLayout::kTND;
  if (!paged && packed_keys != dims.packed) {
    c.fail_value(in.key_layout,
                 std::string("that of the query ('") + name_of(in.of_query) + "')" +
                     (in.pages ? " or 'PA_BSND'" : ""),
                 std::string("'") + name_of(in.of_key) + "'");
  }
  const size_t heads = dims.packed ? 1 : 2, key_heads = packed_keys ? 1 : 2;
  const std::string size = in.dim, of_heads = std::string(", ") + in.heads + ", " + size + ")";
  c.require_rank(in.query, heads + 2, ((dims.packed ? "(T1" : "(B, Sq") + of_heads).c_str());
  const std::string key_axes = (paged         ? "(pages, page, N2, "
                                : dims.packed ? "(T2, N2, "
                                              : "(B, Sk, N2, ") +
                               size + ")";
  c.require_rank(in.key, key_heads + 2, key_axes.c_str());
  c.require_positive_dim(in.query, heads, in.heads);
  c.require_positive_dim(in.query, heads + 1, in.dim);
  c.require_positive_dim(in.key, key_heads, "N2");
  dims.rows = dims.packed ? c.dim(in.query, 0) : kUnknownDim;
  dims.batch = dims.packed ? c.list_length(in.q_lengths) : c.dim(in.query, 0);
  dims.per_batch = dims.packed ? kUnknownDim : c.dim(in.query, 1);
  dims.heads = c.dim(in.query, heads);
  dims.key_heads = c.dim(in.key, key_heads);
  dims.d = c.dim(in.query, heads + 1);
  if (c.dim(in.key, key_heads + 1) >= 0 && dims.d >= 0 && c.dim(in.key, key_heads + 1) != dims.d) {
    c.fail_value(c.name(in.key),
                 "of the head size " + size + " of query (" + std::to_string(dims.d) + ")",
                 format_shape(c.in(in.key).shape));
  }
  if (dims.heads >= 0 && dims.key_heads > 0 && dims.heads % dims.key_heads != 0) {
    c.fail_value(c.name(in.key),
                 std::string("of a head count N2 that divides ") + in.heads + " = " +
                     std::to_string(dims.heads),
                 "N2 = " + std::to_string(dims.key_heads));
  }
  if (dims.packed) {
    require_given(c, in.q_lengths, in.query_layout, "TND");
    c.require_prefix_sums(in.q_lengths, "T1", dims.rows, ListEnd::kAtMost);
  } else {
    check_lengths(c, in.q_lengths, dims.batch, dims.per_batch, "Sq");
  }
  if (paged) {
    check_paged_keys(c, in, in.pages.value(), dims.batch);
    return dims;
  }
  if (in.pages && c.has(*in.pages))
    c.fail_value(c.name(*in.pages), std::string("None unless ") + in.key_layout + " is 'PA_BSND'",
                 "a Tensor");
  if (dims.packed) {
    require_given(c, in.k_lengths, in.key_layout, "TND");
    c.require_same_length(in.k_lengths, in.q_lengths);
    c.require_prefix_sums(in.k_lengths, "T2", c.dim(in.key, 0), ListEnd::kAtMost);
  } else {
    c.require_shape(in.key, key_axes.c_str(), {dims.batch, kUnknownDim, kUnknownDim, kUnknownDim});
    check_lengths(c, in.k_lengths, dims.batch, c.dim(in.key, 1), "Sk");
  }
  return dims;
}

int64_t check_like_key(const Context& c, size_t input, size_t key, const char* last) {
  if (!c.in(key).known_rank) return kUnknownDim;
  const size_t rank = c.in(key).shape.size();
  const std::string axes = "like key but for " + std::string(last);
  c.require_rank(input, rank, axes.c_str());
  c.require_positive_dim(input, rank - 1, last);
  std::vector<int64_t> shape = c.in(key).shape;
  shape.back() = kUnknownDim;
  for (int64_t& size : shape) size = size < 0 ? kUnknownDim : size;
  c.require_shape(input, axes.c_str(), shape.data(), shape.size());
  return c.dim(input, rank - 1);
}

void require_token_shape(const Context& c, size_t input, const TokenDims& dims,
                         std::vector<int64_t> rest, const char* packed_axes, const char* axes) {
  if (!c.has(input)) return;
  const std::vector<int64_t> shape = dims.shape(std::move(rest));
  c.require_shape(input, dims.packed ? packed_axes : axes, shape.data(), shape.size());
}

}  // namespace nsa
