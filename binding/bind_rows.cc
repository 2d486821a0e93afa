#include "binding/bind_rows.h"

#include <string>

namespace nsa {

cpu::CacheView cache_view(const CheckedCall& call, size_t input, std::optional<size_t> table,
                          const CacheDims& dims, CacheLayout layout) {
  const bool tokens_first = layout == CacheLayout::kBSND;
  cpu::CacheView view{};
  view.data = call.data(input);
  view.page = dims.page;
  view.page_stride = dims.page * dims.heads * dims.dim;
  view.token_stride = tokens_first ? dims.heads * dims.dim : dims.dim;
  view.head_stride = tokens_first ? dims.dim : dims.page * dims.dim;
  if (table && call.has(*table)) {
    view.table = call.as<int32_t>(*table);
    view.table_cols = call.dim(*table, 1);
  }
  return view;
}

void check_pages(const CheckedCall& call, size_t table, const CacheDims& dims,
                 const std::vector<int64_t>& lengths) {
  if (!call.has(table)) return;
  const int64_t places = call.dim(table, 1);
  const int32_t* pages = call.as<int32_t>(table);
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t used = ceil_div(lengths[b], dims.page);
    for (int64_t i = 0; i < used; ++i) {
      const int32_t page = pages[b * places + i];
      if (page >= 0 && page < dims.pages) continue;
      call.context.fail_value(
          call.context.name(table), "of pages in [0, " + std::to_string(dims.pages) + ")",
          std::to_string(page) + " at place " + std::to_string(i) + " of row " + std::to_string(b));
    }
  }
}

void fill_rows(const CheckedCall& call, size_t query, size_t q_lengths, size_t lengths,
               RowLayout layout, const CacheDims& value, std::vector<int64_t>& counts,
               cpu::InferParams& p) {
  const bool packed = layout == RowLayout::kTND;
  p.query = call.data(query);
  p.dtype = elem_type(call.in(query).dtype);
  p.B = call.list_length(lengths);
  p.T = packed ? call.dim(query, 0) : call.dim(query, 0) * call.dim(query, 1);
  p.N1 = call.dim(query, packed ? 1 : 2);
  p.N2 = value.heads;
  p.D = call.dim(query, packed ? 2 : 3);
  p.Dv = value.dim;
  if (call.has(q_lengths)) {
    p.q_len = call.list(q_lengths);
  } else {
    counts.assign(p.B, p.B == 0 ? 0 : p.T / p.B);
    p.q_len = counts.data();
  }
}

std::vector<int64_t> list_values(const CheckedCall& call, size_t input) {
  const int64_t* data = call.list(input);
  return {data, data + call.list_length(input)};
}

}  // namespace nsa
