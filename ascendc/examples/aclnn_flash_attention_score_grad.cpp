// FlashAttentionScoreGrad by its aclnn interface: the gradient of aclnn_flash_attention_score.cpp,
// from the statistics and the output that the forward operator leaves.
//
//   flags=$(python -m mindspore_nsa.twin --cflags --libs)
//   g++ -std=c++17 aclnn_flash_attention_score_grad.cpp $flags
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_flash_attention.h"
#include "aclnnop/aclnn_msnsa_flash_attention_grad.h"

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

  const HalfTensor dy({1, heads, rows, dim}, Pattern(heads * rows * dim, 11, 23));
  const HalfTensor dq({1, heads, rows, dim});
  const HalfTensor dk({1, kv_heads, columns, dim});
  const HalfTensor dv({1, kv_heads, columns, dim});
  // Without a bias and a sink nothing of theirs is printed, but the call takes both outputs.
  const HalfTensor dpse({1});
  const FloatTensor dsink({1});
  CHECK(aclnnMsnsaFlashAttentionGradGetWorkspaceSize(
      query.get(), key.get(), value.get(), dy.get(), nullptr, nullptr, nullptr, mask.get(),
      softmax_max.get(), softmax_sum.get(), nullptr, attention_out.get(), nullptr, nullptr, nullptr,
      nullptr, nullptr, nullptr, nullptr, nullptr, scale, keep_prob, unbounded, unbounded, heads,
      layout, 0, bottom_right_causal, pse_type, 0, 0, 0, dq.get(), dk.get(), dv.get(), dpse.get(),
      dsink.get(), &workspace_size, &executor));
  session.Run(aclnnMsnsaFlashAttentionGrad, workspace_size, executor);
  Print("dq", dq);
  Print("dk", dk);
  Print("dv", dv);
  return 0;
}
