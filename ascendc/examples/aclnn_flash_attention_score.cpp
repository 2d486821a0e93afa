// FlashAttentionScore by its aclnn interface: 32 queries of two heads over 48 keys of one head, the
// last query seeing every key.
//
//   g++ -std=c++17 aclnn_flash_attention_score.cpp $(python -m mindspore_nsa.twin --cflags --libs)
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_flash_attention.h"

int main() {
  const int64_t heads = 2, kv_heads = 1, rows = 32, columns = 48, dim = 16;
  const int64_t unbounded = 2147483647, bottom_right_causal = 3, pse_type = 1;
  const double scale = 0.25, keep_prob = 1.0;
  char layout[] = "BNSD";

  const Session session;
  const HalfTensor query({1, heads, rows, dim}, Pattern(heads * rows * dim, 7, 19));
  const HalfTensor key({1, kv_heads, columns, dim}, Pattern(kv_heads * columns * dim, 5, 17));
  const HalfTensor value({1, kv_heads, columns, dim}, Pattern(kv_heads * columns * dim, 3, 13));
  const ByteTensor mask({kCausalMaskSize, kCausalMaskSize}, CausalMask());
  const FloatTensor softmax_max({1, heads, rows, 8});
  const FloatTensor softmax_sum({1, heads, rows, 8});
  const HalfTensor attention_out({1, heads, rows, dim});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaFlashAttentionGetWorkspaceSize(
      query.get(), key.get(), value.get(), nullptr, nullptr, nullptr, mask.get(), nullptr, nullptr,
      nullptr, nullptr, nullptr, nullptr, scale, keep_prob, unbounded, unbounded, heads, layout, 0,
      bottom_right_causal, pse_type, softmax_max.get(), softmax_sum.get(), nullptr,
      attention_out.get(), &workspace_size, &executor));
  session.Run(aclnnMsnsaFlashAttention, workspace_size, executor);
  Print("softmaxMax", softmax_max);
  Print("softmaxSum", softmax_sum);
  Print("attentionOut", attention_out);
  return 0;
}
