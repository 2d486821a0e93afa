// NsaCompressAttention by its aclnn interface: two segments of 32 and 64 queries of four heads,
// over the compressed tokens of two heads, each query with its two most important blocks.
//
//   g++ -std=c++17 aclnn_nsa_compress_attention.cpp $(python -m mindspore_nsa.twin --cflags --libs)
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_compress_attention.h"

int main() {
  const int64_t queries = 96, keys = 4, heads = 4, kv_heads = 2, dim = 16;
  const int64_t window = 32, stride = 16, block = 32, count = 2, causal = 1, init = 1, local = 0;
  const double scale = 0.25;
  char layout[] = "TND", importance[] = "overlap";
  const std::vector<int64_t> query_ends{32, 96}, key_ends{1, 4};

  const Session session;
  const HalfTensor query({queries, heads, dim}, Pattern(queries * heads * dim, 7, 19));
  const HalfTensor key({keys, kv_heads, dim}, Pattern(keys * kv_heads * dim, 5, 17));
  const HalfTensor value({keys, kv_heads, dim}, Pattern(keys * kv_heads * dim, 3, 13));
  const FloatTensor softmax_max({queries, heads, 8});
  const FloatTensor softmax_sum({queries, heads, 8});
  const HalfTensor attention_out({queries, heads, dim});
  const IntTensor topk_indices({queries, kv_heads, count});
  aclIntArray* query_list = aclCreateIntArray(query_ends.data(), query_ends.size());
  aclIntArray* key_list = aclCreateIntArray(key_ends.data(), key_ends.size());

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaCompressAttentionGetWorkspaceSize(
      query.get(), key.get(), value.get(), nullptr, nullptr, query_list, key_list, nullptr, nullptr,
      scale, heads, layout, 0, window, stride, block, count, causal, init, local, importance,
      softmax_max.get(), softmax_sum.get(), attention_out.get(), topk_indices.get(),
      &workspace_size, &executor));
  session.Run(aclnnMsnsaCompressAttention, workspace_size, executor);
  aclDestroyIntArray(query_list);
  aclDestroyIntArray(key_list);
  Print("softmaxMax", softmax_max);
  Print("softmaxSum", softmax_sum);
  Print("attentionOut", attention_out);
  Print("topkIndices", topk_indices);
  return 0;
}
