// Layouts and forms of FlashAttentionScore's inputs, for its rules and for whoever calls its
// kernels.
#pragma once

#include <string>
#include <vector>

#include "infer/flash_attention_score.h"
#include "infer/sizes.h"

namespace nsa {

// -1 where unknown. TND: s1 and s2 are T1 and T2, batch is the number of segments.
struct FlashDims {
  InputLayout layout;
  int64_t batch, n1, n2, s1, s2, d, dv;
};

// Where the inputs that the operator and its gradient share are in one of the two.
struct FlashInputs {
  template <class Positions>
  explicit constexpr FlashInputs(const Positions& in)
      : query(in.query),
        key(in.key),
        value(in.value),
        real_shift(in.real_shift),
        drop_mask(in.drop_mask),
        attn_mask(in.attn_mask),
        prefix(in.prefix),
        seq_q(in.actual_seq_qlen),
        seq_kv(in.actual_seq_kvlen),
        sink(in.sink),
        q_start(in.q_start_idx),
        kv_start(in.kv_start_idx) {}

  size_t query, key, value, real_shift, drop_mask, attn_mask, prefix, seq_q, seq_kv, sink;
  size_t q_start, kv_start;
};

// The gradient of NsaCompressAttention borrows FlashAttentionScoreGrad: compress_block_size > 0
// says so. Its key list may end before T2 and its mask may be larger than the segments.
struct CompressedKind {
  bool on;
};

// The rules by idea; `check_*` throw OpError.
FlashInputs flash_inputs(OpId op);
// Attributes of the operator or of its gradient.
const FlashAttentionScoreAttrs& flash_attrs(const Context& c);
// query, key and value.
FlashDims match_flash_operands(const Context& c, const FlashInputs& in, Sizes& sizes);
FlashDims check_flash_operands(const Context& c, const FlashInputs& in);
void check_flash_lists(const Context& c, const FlashInputs& in, const FlashDims& dims,
                       CompressedKind compressed);
void check_flash_mask(const Context& c, const FlashInputs& in, const FlashDims& dims,
                      CompressedKind compressed);
void check_flash_prefix(const Context& c, const FlashInputs& in, const FlashDims& dims);
void check_flash_dropout(const Context& c, const FlashInputs& in, const FlashDims& dims);

enum class PseForm {
  kNone,
  kUnknown,          // the shapes do not tell yet
  kFull,             // [B or 1, N1, S1, S2]; TND: flat [N1, S1_b, S2_b] per segment
  kRow,              // [B or 1, N1, 1, S2]; TND: flat [N1, 1, S2_b] per segment
  kCompressedAlibi,  // [B or 1, N1, 1024, S2]
  kSlopes,           // [N1] or [B, N1]
};

PseForm check_flash_pse(const Context& c, const FlashInputs& in, const FlashDims& dims);

inline constexpr int64_t kAlibiRows = 1024;

}  // namespace nsa
