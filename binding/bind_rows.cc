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

void check_pages(const CheckedCall& call, size_t table, int64_t pages, int64_t page,
                 const int64_t* lengths, size_t rows) {
  if (!call.has(table)) return;
  const int64_t places = call.dim(table, 1);
  for (size_t b = 0; b < rows; ++b) {
    const int32_t* const row = call.as<int32_t>(table) + b * places;
    for (int64_t i = 0; i < ceil_div(lengths[b], page); ++i) {
      if (row[i] >= 0 && row[i] < pages) continue;
      call.context.fail_value(call.context.name(table),
                              "of pages in [0, " + std::to_string(pages) + ")",
                              std::to_string(row[i]) + " at place " + std::to_string(i) +
                                  " of row " + std::to_string(b));
    }
  }
}

void check_pages(const CheckedCall& call, size_t table, const CacheDims& dims,
                 const SeqList& lengths) {
  check_pages(call, table, dims.pages, dims.page, lengths.data(), lengths.size());
}

void fill_rows(const CheckedCall& call, size_t q_lengths, const CacheDims& value, SeqList& counts,
               cpu::InferParams& p) {
  p.N2 = value.heads;
  p.Dv = value.dim;
  p.q_len = call.list(q_lengths);
  if (p.q_len != nullptr) return;
  counts.assign(p.B, p.B == 0 ? 0 : p.T / p.B);
  p.q_len = counts.data();
}

}  // namespace nsa
