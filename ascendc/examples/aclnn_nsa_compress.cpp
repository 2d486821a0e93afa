// NsaCompress by its aclnn interface: 80 tokens in two segments, windows of 32 tokens, 16 apart.
//
//   g++ -std=c++17 aclnn_nsa_compress.cpp $(python -m mindspore_nsa.twin --cflags --libs)
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_compress.h"

int main() {
  const int64_t tokens = 80, heads = 2, dim = 16, block_size = 32, stride = 16;
  const std::vector<int64_t> segment_ends = {32, tokens};
  const int64_t rows = 1 + 2;  // windows of the segments of 32 and 48 tokens
  char layout[] = "TND";

  const Session session;
  const HalfTensor input({tokens, heads, dim}, Pattern(tokens * heads * dim, 7, 19));
  const HalfTensor weight({block_size, heads}, Pattern(block_size * heads, 5, 11));
  const HalfTensor output({rows, heads, dim});
  aclIntArray* segments = aclCreateIntArray(segment_ends.data(), segment_ends.size());

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaCompressGetWorkspaceSize(input.get(), weight.get(), segments, layout, block_size,
                                           stride, 0, output.get(), &workspace_size, &executor));
  session.Run(aclnnMsnsaCompress, workspace_size, executor);
  Print("output", output);
  aclDestroyIntArray(segments);
  return 0;
}
