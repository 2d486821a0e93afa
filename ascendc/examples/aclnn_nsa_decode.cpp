// NsaDecode by its aclnn interface: one new token of two rows of 96 and 50 tokens, whose pages are
// shuffled; each row has one piece of compressed tokens, and a ring of 32.
//
//   g++ -std=c++17 aclnn_nsa_decode.cpp $(python -m mindspore_nsa.twin --cflags --libs)
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_decode.h"

int main() {
  const int64_t rows = 2, pages = 12, page = 16, query_heads = 4, heads = 2, dim = 32;
  const int64_t window = 16, stride = 8, block_size = 16, block_count = 3, init = 1, local = 1;
  const int64_t compressed = 11, ring = 32, seen = 24;
  char layout[] = "BSND", cache_layout[] = "BSND", importance[] = "cann";

  const Session session;
  const auto half = [&](int64_t first, int64_t second, int a, int b) {
    return HalfTensor({first, second, heads, dim}, Pattern(first * second * heads * dim, a, b));
  };
  const HalfTensor query({rows, 1, query_heads, dim}, Pattern(rows * query_heads * dim, 7, 19));
  const FloatTensor gates({rows, 1, 3, query_heads}, Pattern(rows * 3 * query_heads, 3, 7));
  const HalfTensor key_cmp = half(rows, compressed, 5, 17),
                   value_cmp = half(rows, compressed, 3, 13);
  const HalfTensor key_slc = half(pages, page, 7, 17), value_slc = half(pages, page, 5, 13);
  const HalfTensor key_win = half(rows, ring, 3, 17), value_win = half(rows, ring, 7, 13);
  const IntTensor table({rows, 6}, {11, 3, 0, 7, 5, 2, 1, 4, 6, 8, 0, 0});
  const LongTensor lengths({rows}, {96, 50});
  const HalfTensor output({rows, 1, query_heads, dim});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaDecodeGetWorkspaceSize(
      query.get(), gates.get(), key_cmp.get(), value_cmp.get(), key_slc.get(), value_slc.get(),
      key_win.get(), value_win.get(), table.get(), nullptr, nullptr, lengths.get(), 0.25,
      query_heads, window, stride, block_size, block_count, seen, layout, cache_layout, init, local,
      importance, output.get(), &workspace_size, &executor));
  session.Run(aclnnMsnsaDecode, workspace_size, executor);
  Print("attentionOut", output);
  return 0;
}
