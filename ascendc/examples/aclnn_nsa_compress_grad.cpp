// NsaCompressGrad by its aclnn interface: the gradient of aclnn_nsa_compress.cpp.
//
//   g++ -std=c++17 aclnn_nsa_compress_grad.cpp $(python -m mindspore_nsa.twin --cflags --libs)
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_compress_grad.h"

int main() {
  const int64_t tokens = 80, heads = 2, dim = 16, block_size = 32, stride = 16;
  const std::vector<int64_t> segment_ends = {32, tokens};
  const int64_t rows = 1 + 2;  // windows of the segments of 32 and 48 tokens
  char layout[] = "TND";

  const Session session;
  const HalfTensor output_grad({rows, heads, dim}, Pattern(rows * heads * dim, 3, 13));
  const HalfTensor input({tokens, heads, dim}, Pattern(tokens * heads * dim, 7, 19));
  const HalfTensor weight({block_size, heads}, Pattern(block_size * heads, 5, 11));
  const HalfTensor input_grad({tokens, heads, dim});
  const HalfTensor weight_grad({block_size, heads});
  aclIntArray* segments = aclCreateIntArray(segment_ends.data(), segment_ends.size());

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaCompressGradGetWorkspaceSize(
      output_grad.get(), input.get(), weight.get(), segments, block_size, stride, 0, layout,
      input_grad.get(), weight_grad.get(), &workspace_size, &executor));
  session.Run(aclnnMsnsaCompressGrad, workspace_size, executor);
  Print("inputGrad", input_grad);
  Print("weightGrad", weight_grad);
  aclDestroyIntArray(segments);
  return 0;
}
