// Inputs, attributes and outputs of FlashAttentionScore and its gradient.
#pragma once

#include "infer/declare.h"

namespace nsa {

// Shapes by layout: TND, BSH, SBH, BSND, BNSD. Statistics have the same shape in the last four.
// Pointers to literals: with -fsanitize=undefined GCC compares no address of an array when it
// compiles.
inline constexpr const char* kFlashQuery =
    "T1, N1 = head_num > 0, D > 0 with input_layout 'TND' | "
    "B, S1, N1 * D with input_layout 'BSH' | "
    "S1, B, N1 * D with input_layout 'SBH' | "
    "B, S1, N1 = head_num > 0, D > 0 with input_layout 'BSND' | "
    "B, N1 = head_num > 0, S1, D > 0 with input_layout 'BNSD'";
inline constexpr const char* kFlashKey =
    "T2, N2 > 0, D > 0 with input_layout 'TND' | "
    "B, S2, N2 * D with input_layout 'BSH' | "
    "S2, B, N2 * D with input_layout 'SBH' | "
    "B, S2, N2 > 0, D > 0 with input_layout 'BSND' | "
    "B, N2 > 0, S2, D > 0 with input_layout 'BNSD'";
inline constexpr const char* kFlashValue =
    "T2, N2 > 0, Dv > 0 with input_layout 'TND' | "
    "B, S2, N2 * Dv with input_layout 'BSH' | "
    "S2, B, N2 * Dv with input_layout 'SBH' | "
    "B, S2, N2 > 0, Dv > 0 with input_layout 'BSND' | "
    "B, N2 > 0, S2, Dv > 0 with input_layout 'BNSD'";
inline constexpr const char* kFlashOut =
    "T1, N1, Dv | B, S1, N1 * Dv | S1, B, N1 * Dv | B, S1, N1, Dv | B, N1, S1, Dv";
inline constexpr const char* kFlashLikeOut =
    "attention_out: T1, N1, Dv | "
    "attention_out: B, S1, N1 * Dv | "
    "attention_out: S1, B, N1 * Dv | "
    "attention_out: B, S1, N1, Dv | "
    "attention_out: B, N1, S1, Dv";
inline constexpr const char* kFlashStatistics = "T1, N1, 8 | B, N1, S1, 8";

struct FlashAttentionScoreInputs : Inputs {
  size_t query = required("query", Elements::kFloat, kFlashQuery);
  size_t key = required("key", Elements::kSameFloat, kFlashKey);
  size_t value = required("value", Elements::kSameFloat, kFlashValue);
  size_t real_shift = optional("real_shift", Elements::kByRules);  // by pse_type
  size_t drop_mask = optional("drop_mask", Elements::kUint8);
  size_t attn_mask = optional("attn_mask", Elements::kMask);
  size_t prefix = optional("prefix", Elements::kRowList);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kList);
  size_t actual_seq_kvlen = optional("actual_seq_kvlen", Elements::kList);
  size_t sink = optional("sink", Elements::kFloat32, "N1");
  // Positions of the first query and the first key, for the distance of slopes: one for all batch
  // elements or one for each.
  size_t q_start_idx = optional("q_start_idx", Elements::kRowList);
  size_t kv_start_idx = optional("kv_start_idx", Elements::kRowList);
};
inline constexpr FlashAttentionScoreInputs kFlashAttentionScoreInputs;

struct FlashAttentionScoreAttrs {
  static constexpr int64_t kAllTokens = 2147483647;

  int64_t head_num;
  double keep_prob = 1;
  float scalar_value = 1;
  int64_t pre_tokens = kAllTokens, next_tokens = kAllTokens;
  int64_t sparse_mode = 0;
  InputLayout input_layout = InputLayout::kBSH;
  int64_t pse_type = 1;

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = FlashAttentionScoreAttrs;
    attr.required("head_num", &Self::head_num, 1);
    attr.probability("keep_prob", &Self::keep_prob);
    attr.optional("scalar_value", &Self::scalar_value);
    attr.optional("pre_tokens", &Self::pre_tokens);
    attr.optional("next_tokens", &Self::next_tokens);
    attr.optional("input_layout", &Self::input_layout);
    attr.optional("sparse_mode", &Self::sparse_mode, 0, 8);
    attr.optional("pse_type", &Self::pse_type, 0, 3);
  }
};

struct FlashAttentionScoreOutputs : Outputs {
  size_t attention_out = add("attention_out", Result::kFloat, kFlashOut);
  size_t softmax_max = add("softmax_max", Result::kFloat32, kFlashStatistics);
  size_t softmax_sum = add("softmax_sum", Result::kFloat32, kFlashStatistics);
};
inline constexpr FlashAttentionScoreOutputs kFlashAttentionScoreOutputs;

struct FlashAttentionScoreGradInputs : Inputs {
  size_t query = required("query", Elements::kFloat, kFlashQuery);
  size_t key = required("key", Elements::kSameFloat, kFlashKey);
  size_t value = required("value", Elements::kSameFloat, kFlashValue);
  size_t dy = required("dy", Elements::kSameFloat, kFlashLikeOut);
  size_t real_shift = optional("real_shift", Elements::kByRules);  // by pse_type
  size_t drop_mask = optional("drop_mask", Elements::kUint8);
  size_t attn_mask = optional("attn_mask", Elements::kMask);
  size_t softmax_max = required("softmax_max", Elements::kFloat32, kFlashStatistics);
  size_t softmax_sum = required("softmax_sum", Elements::kFloat32, kFlashStatistics);
  size_t attention_in = required("attention_in", Elements::kSameFloat, kFlashLikeOut);
  size_t prefix = optional("prefix", Elements::kRowList);
  size_t actual_seq_qlen = optional("actual_seq_qlen", Elements::kList);
  size_t actual_seq_kvlen = optional("actual_seq_kvlen", Elements::kList);
  size_t sink = optional("sink", Elements::kFloat32, "N1");
  size_t q_offset = optional("q_offset", Elements::kList);
  size_t softmax_sum_grad = optional("softmax_sum_grad", Elements::kFloat32, kFlashStatistics);
  size_t q_start_idx = optional("q_start_idx", Elements::kRowList);
  size_t kv_start_idx = optional("kv_start_idx", Elements::kRowList);
};
inline constexpr FlashAttentionScoreGradInputs kFlashAttentionScoreGradInputs;

struct FlashAttentionScoreGradAttrs : FlashAttentionScoreAttrs {
  int64_t compress_block_size = 0;  // > 0: the gradient of NsaCompressAttention
  int64_t compress_stride = 0;
  bool pse_grad = false;  // whether the gradient of real_shift is asked for

  template <class Visitor>
  static void each(Visitor& attr) {
    using Self = FlashAttentionScoreGradAttrs;
    FlashAttentionScoreAttrs::each(attr);
    attr.optional("compress_block_size", &Self::compress_block_size, 0);
    attr.optional("compress_stride", &Self::compress_stride);
    attr.optional("pse_grad", &Self::pse_grad);
  }
};

struct FlashAttentionScoreGradOutputs : Outputs {
  size_t dq = add("dq", Result::kFloat,
                  "T1, N1, D | B, S1, N1 * D | S1, B, N1 * D | B, S1, N1, D | B, N1, S1, D");
  size_t dk = add("dk", Result::kFloat,
                  "T2, N2, D | B, S2, N2 * D | S2, B, N2 * D | B, S2, N2, D | B, N2, S2, D");
  size_t dv = add("dv", Result::kFloat,
                  "T2, N2, Dv | B, S2, N2 * Dv | S2, B, N2 * Dv | B, S2, N2, Dv | B, N2, S2, Dv");
  size_t dpse = add("dpse", Result::kFloat, "1");
  size_t dsink = add("dsink", Result::kFloat32, "1");
};
inline constexpr FlashAttentionScoreGradOutputs kFlashAttentionScoreGradOutputs;

}  // namespace nsa
