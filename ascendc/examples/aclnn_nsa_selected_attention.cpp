// NsaSelectedAttention by its aclnn interface: two segments of 24 queries with 4 heads to one key
// head, each over two of its segment's blocks of 16 keys, causal.
//
//   g++ -std=c++17 aclnn_nsa_selected_attention.cpp $(python -m mindspore_nsa.twin --cflags --libs)
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_selected_attention.h"

int main() {
  const int64_t heads = 4, tokens = 48, dim = 32, value_dim = 16;
  const int64_t block_size = 16, block_count = 2, causal = 2;
  const double scale = 0.25;
  const std::vector<int64_t> ends{24, tokens};
  char layout[] = "TND";

  const Session session;
  const HalfTensor query({tokens, heads, dim}, Pattern(tokens * heads * dim, 7, 19));
  const HalfTensor key({tokens, 1, dim}, Pattern(tokens * dim, 5, 17));
  const HalfTensor value({tokens, 1, value_dim}, Pattern(tokens * value_dim, 3, 13));
  const IntTensor indices({tokens, 1, block_count}, Alternating(tokens * block_count));
  const FloatTensor softmax_max({tokens, heads, 8});
  const FloatTensor softmax_sum({tokens, heads, 8});
  const HalfTensor attention_out({tokens, heads, value_dim});
  aclIntArray* segments = aclCreateIntArray(ends.data(), ends.size());

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaSelectedAttentionGetWorkspaceSize(
      query.get(), key.get(), value.get(), indices.get(), nullptr, segments, segments, nullptr,
      scale, heads, layout, causal, block_size, block_count, softmax_max.get(), softmax_sum.get(),
      attention_out.get(), &workspace_size, &executor));
  session.Run(aclnnMsnsaSelectedAttention, workspace_size, executor);
  Print("softmaxMax", softmax_max);
  Print("softmaxSum", softmax_sum);
  Print("attentionOut", attention_out);
  aclDestroyIntArray(segments);
  return 0;
}
