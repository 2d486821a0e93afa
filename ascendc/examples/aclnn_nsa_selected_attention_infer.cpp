// NsaSelectedAttentionInfer by its aclnn interface: one new token of two rows, whose 96 and 50
// tokens lie in shuffled pages of 16.
//
//   g++ -std=c++17 aclnn_nsa_selected_attention_infer.cpp \
//       $(python -m mindspore_nsa.twin --cflags --libs)
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_selected_attention_infer.h"

int main() {
  const int64_t rows = 2, pages = 12, page = 16, query_heads = 4, heads = 2, dim = 32;
  const int64_t block_size = 32, block_count = 2;
  char layout[] = "BSND";

  const Session session;
  const HalfTensor query({rows, 1, query_heads, dim}, Pattern(rows * query_heads * dim, 7, 19));
  const HalfTensor key({pages, page, heads, dim}, Pattern(pages * page * heads * dim, 5, 17));
  const HalfTensor value({pages, page, heads, dim}, Pattern(pages * page * heads * dim, 3, 13));
  const IntTensor blocks({rows, 1, heads, block_count}, {2, 0, 1, 2, 1, 0, 0, -1});
  const IntTensor table({rows, 6}, {11, 3, 0, 7, 5, 2, 1, 4, 6, 8, 0, 0});
  const LongTensor lengths({rows}, {96, 50});
  const HalfTensor output({rows, 1, query_heads, dim});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaSelectedAttentionInferGetWorkspaceSize(
      query.get(), key.get(), value.get(), blocks.get(), table.get(), nullptr, lengths.get(), 0.25,
      query_heads, heads, block_size, block_count, page, layout, output.get(), &workspace_size,
      &executor));
  session.Run(aclnnMsnsaSelectedAttentionInfer, workspace_size, executor);
  Print("attentionOut", output);
  return 0;
}
