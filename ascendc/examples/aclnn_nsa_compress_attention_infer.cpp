// NsaCompressAttentionInfer by its aclnn interface: one new token of two rows, whose 40 and 19
// compressed tokens lie in shuffled pages of 16.
//
//   g++ -std=c++17 aclnn_nsa_compress_attention_infer.cpp \
//       $(python -m mindspore_nsa.twin --cflags --libs)
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_compress_attention_infer.h"

int main() {
  const int64_t rows = 2, pages = 6, page = 16, query_heads = 4, heads = 2, dim = 32;
  const int64_t window = 32, stride = 16, block_size = 64, block_count = 4, init = 1, local = 1;
  char layout[] = "BSND", importance[] = "cann";

  const Session session;
  const HalfTensor query({rows, 1, query_heads, dim}, Pattern(rows * query_heads * dim, 7, 19));
  const HalfTensor key({pages, page, heads, dim}, Pattern(pages * page * heads * dim, 5, 17));
  const HalfTensor value({pages, page, heads, dim}, Pattern(pages * page * heads * dim, 3, 13));
  const IntTensor table({rows, 3}, {5, 3, 0, 1, 4, 0});
  const LongTensor compressed({rows}, {40, 19});
  const LongTensor tokens({rows}, {40 * stride + window - stride, 19 * stride + window - 1});
  const HalfTensor output({rows, 1, query_heads, dim});
  const IntTensor blocks({rows, 1, heads, block_count});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaCompressAttentionInferGetWorkspaceSize(
      query.get(), key.get(), value.get(), table.get(), nullptr, compressed.get(), tokens.get(),
      0.25, query_heads, heads, block_size, block_count, page, window, stride, layout, init, local,
      importance, output.get(), blocks.get(), &workspace_size, &executor));
  session.Run(aclnnMsnsaCompressAttentionInfer, workspace_size, executor);
  Print("attentionOut", output);
  Print("topkIndices", blocks);
  return 0;
}
