// NsaCompressWithCache by its aclnn interface: two rows of 32 and of 48 tokens, windows of 32
// tokens, 16 apart, whose compressed tokens go into places 1 and 3 of a cache of five.
//
//   g++ -std=c++17 aclnn_nsa_compress_with_cache.cpp \
//       $(python -m mindspore_nsa.twin --cflags --libs)
#include "acl_program.h"
#include "aclnnop/aclnn_msnsa_compress_with_cache.h"

int main() {
  const int64_t tokens = 80, heads = 2, dim = 16, block_size = 32, stride = 16, slots = 5;
  char layout[] = "TND";

  const Session session;
  const HalfTensor input({tokens, heads, dim}, Pattern(tokens * heads * dim, 7, 19));
  const HalfTensor weight({block_size, heads}, Pattern(block_size * heads, 5, 11));
  const LongTensor slot_mapping({2}, {1, 3});
  const LongTensor lengths({2}, {32, 48});
  const HalfTensor cache({slots, heads, dim}, std::vector<float>(slots * heads * dim));
  const HalfTensor rows({2, heads, dim});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMsnsaCompressWithCacheGetWorkspaceSize(
      input.get(), weight.get(), slot_mapping.get(), cache.get(), lengths.get(), nullptr, layout,
      block_size, stride, 1, 0, rows.get(), &workspace_size, &executor));
  session.Run(aclnnMsnsaCompressWithCache, workspace_size, executor);
  Print("cache", cache);
  return 0;
}
