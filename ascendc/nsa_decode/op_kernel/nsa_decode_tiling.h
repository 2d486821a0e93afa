// Tiling data of NsaDecode, written by op_host and read by the kernel, and its workspace.
#pragma once

#include "ascendc/decoding/branch_mix.h"
#include "ascendc/nsa_compress_attention_infer/op_kernel/nsa_compress_attention_infer_tiling.h"
#include "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_tiling.h"

namespace nsa::ascend {

struct NsaDecodeTilingData {
  NsaCompressAttentionInferTilingData compressed;
  NsaSelectedAttentionInferTilingData selected;
  SplitTiling window;
  int64_t window_tokens;  // that a query sees, itself among them
  int64_t ring;           // places of a row's
};
static_assert(sizeof(NsaDecodeTilingData) <= kMaxTilingBytes);

// Bytes: the outputs of the branches, [3, queries, N1, Dv]; the blocks, int32 [queries, N2, count];
// then the workspace of a branch's splits, of one branch after the other.
struct NsaDecodeWorkspace {
  int64_t branch, blocks;

  __aicore__ constexpr explicit NsaDecodeWorkspace(const NsaDecodeTilingData& t)
      : branch(Padded(DecodeRows(t) * t.window.group * t.window.value_dim * 2)),
        blocks(Padded(DecodeRows(t) * t.selected.block_count * 4)) {}
  __aicore__ constexpr int64_t BlocksBegin() const { return kBranches * branch; }
  __aicore__ constexpr int64_t SplitsBegin() const { return BlocksBegin() + blocks; }

 private:
  __aicore__ static constexpr int64_t DecodeRows(const NsaDecodeTilingData& t) {
    return t.window.queries * t.window.heads;
  }
  __aicore__ static constexpr int64_t Padded(int64_t bytes) { return (bytes + 511) / 512 * 512; }
};

}  // namespace nsa::ascend
