// Functions that binding/bind_*.cc calls, or has.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#pragma once

#include "binding/op_call.h"

namespace nsa {

namespace cpu {
struct FlashAttentionScoreGradParams;
struct FlashAttentionScoreParams;
struct LightningIndexerParams;
struct NsaCacheStepParams;
struct NsaCompressAttentionInferParams;
struct NsaCompressAttentionParams;
struct NsaCompressWithCacheParams;
struct NsaDecodeParams;
struct NsaProjectionInputGradParams;
struct NsaProjectionParams;
struct NsaProjectionWeightGradParams;
struct NsaSelectedAttentionInferParams;
struct NsaSplitHeadsParams;
struct SparseFlashAttentionGradParams;
struct SparseFlashAttentionParams;
}  // namespace cpu

void fill_nsa_compress_attention(const CheckedCall& call, cpu::NsaCompressAttentionParams& p);
void run_nsa_compress_attention(const CheckedCall& call);
void fill_flash_attention_score(const CheckedCall& call, cpu::FlashAttentionScoreParams& p);
void run_flash_attention_score(const CheckedCall& call);
void fill_flash_attention_score_grad(const CheckedCall& call,
                                     cpu::FlashAttentionScoreGradParams& p);
void run_flash_attention_score_grad(const CheckedCall& call);
void fill_nsa_compress_with_cache(const CheckedCall& call, cpu::NsaCompressWithCacheParams& p);
void run_nsa_compress_with_cache(const CheckedCall& call);
void check_nsa_compress_with_cache(const CheckedCall& call);
void fill_nsa_compress_attention_infer(const CheckedCall& call,
                                       cpu::NsaCompressAttentionInferParams& p);
void run_nsa_compress_attention_infer(const CheckedCall& call);
void check_nsa_compress_attention_infer(const CheckedCall& call);
void fill_nsa_selected_attention_infer(const CheckedCall& call,
                                       cpu::NsaSelectedAttentionInferParams& p);
void run_nsa_selected_attention_infer(const CheckedCall& call);
void check_nsa_selected_attention_infer(const CheckedCall& call);
void fill_nsa_cache_step(const CheckedCall& call, cpu::NsaCacheStepParams& p);
void run_nsa_cache_step(const CheckedCall& call);
void check_nsa_cache_step(const CheckedCall& call);
void fill_nsa_decode(const CheckedCall& call, cpu::NsaDecodeParams& p);
void run_nsa_decode(const CheckedCall& call);
void check_nsa_decode(const CheckedCall& call);
void fill_nsa_split_heads(const CheckedCall& call, cpu::NsaSplitHeadsParams& p);
void run_nsa_split_heads(const CheckedCall& call);
void fill_nsa_projection(const CheckedCall& call, cpu::NsaProjectionParams& p);
void run_nsa_projection(const CheckedCall& call);
int64_t work_of_nsa_projection(const CheckedCall& call);
void fill_nsa_projection_input_grad(const CheckedCall& call, cpu::NsaProjectionInputGradParams& p);
void run_nsa_projection_input_grad(const CheckedCall& call);
int64_t work_of_nsa_projection_input_grad(const CheckedCall& call);
void fill_nsa_projection_weight_grad(const CheckedCall& call,
                                     cpu::NsaProjectionWeightGradParams& p);
void run_nsa_projection_weight_grad(const CheckedCall& call);
int64_t work_of_nsa_projection_weight_grad(const CheckedCall& call);
void fill_lightning_indexer(const CheckedCall& call, cpu::LightningIndexerParams& p);
void run_lightning_indexer(const CheckedCall& call);
void fill_sparse_flash_attention(const CheckedCall& call, cpu::SparseFlashAttentionParams& p);
void run_sparse_flash_attention(const CheckedCall& call);
void fill_sparse_flash_attention_grad(const CheckedCall& call,
                                      cpu::SparseFlashAttentionGradParams& p);
void run_sparse_flash_attention_grad(const CheckedCall& call);

}  // namespace nsa
