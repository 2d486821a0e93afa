// The functions that exist once per instruction set. Plain pointers and plain data only: these
// translation units are compiled with instructions the machine may lack, so nothing in them may be
// linked elsewhere.
#pragma once

#include "cpu/engine/plan/attention_plan.h"
#include "cpu/engine/plan/grad_schedule.h"
#include "cpu/engine/plan/selection.h"

namespace nsa::cpu {

// Operators' structs are declared only; whoever reads or fills one includes its header.
struct CompressGradPlan;
struct CompressPlan;
struct CompressScratch;
struct DecodePlan;
struct DecodeScratch;
struct DecodeWave;
struct ImportancePlan;
struct IndexerPlan;
struct KLPlan;
struct DenseKLPlan;
struct NsaCompressWithCacheParams;
struct NsaLinearParams;
struct ProductScratch;
struct RowProduct;
struct SparseGradPlan;
struct SparsePlan;
struct StatisticRows;
struct TokenGradPlan;
struct TokenPlan;
struct WeightProduct;

struct KernelTable {
  const char* name;
  // Form of bf16 operands in matmuls; one per word means that they become floats.
  WordForm bf16;
  // Form of float32 operands of a RowProduct or WeightProduct, and of attention that fits it.
  WordForm float_form;

  WordForm form(ElemType t) const { return t == ElemType::kBFloat16 ? bf16 : WordForm{1, 1}; }
  WordForm product_form(ElemType t) const { return t == ElemType::kBFloat16 ? bf16 : float_form; }
  WordForm select_form(const AttentionPlan& plan, int64_t block) const {
    return blocks_fit_bf16x3(plan, block) ? float_form : form(plan.dtype);
  }
  // Form of FlashAttentionScore and NsaCompressAttention. few_keys: all queries see few.
  WordForm forward_form(const AttentionPlan& plan, bool few_keys) const {
    const bool fits = few_keys && heads_fit_bf16x3(plan);
    return fits || rows_fit_bf16x3(plan) ? float_form : form(plan.dtype);
  }

  int64_t (*flash_forward_thread_size)(int64_t D, int64_t Dv, int64_t tile_rows, bool as_bf16x3);
  void (*flash_forward)(const AttentionPlan&, const Wave&, const ForwardScratch&, int threads);
  // Both gradients share it.
  int64_t (*grad_thread_size)(ElemType, int64_t D, int64_t Dv, int64_t max_kv_chunk);
  void (*flash_backward)(const AttentionGradPlan&, const GradWave&, const GradScratch&,
                         int64_t max_kv_chunk, int threads);
  void (*flash_dsink)(const AttentionGradPlan&, float* tmp, int64_t tmp_size, int threads);
  int64_t (*select_forward_thread_size)(int64_t D, int64_t Dv, int64_t chunk_rows, bool as_bf16x3);
  void (*select_forward)(const AttentionPlan&, const Selection&, const SelectWave&,
                         const ForwardScratch&, int64_t chunk_rows, int threads);
  void (*select_backward)(const AttentionGradPlan&, const Selection&, const SelectGradWave&,
                          const GradScratch&, int threads);
  int64_t (*compress_attention_thread_size)(const ImportancePlan&, int64_t D, int64_t Dv, int64_t G,
                                            bool as_bf16x3);
  void (*compress_attention)(const AttentionPlan&, const ImportancePlan&, const Wave&,
                             const ForwardScratch&, int threads);
  int64_t (*block_indexer_thread_size)(const AttentionPlan&, const IndexerPlan&);
  void (*block_indexer)(const AttentionPlan&, const IndexerPlan&, const Wave&,
                        const ForwardScratch&, int threads);
  int64_t (*lightning_indexer_thread_size)(const AttentionPlan&, const TokenPlan&);
  void (*lightning_indexer)(const AttentionPlan&, const TokenPlan&, const Wave&,
                            const ForwardScratch&, int threads);
  int64_t (*lightning_indexer_grad_thread_size)(const AttentionPlan&, const TokenGradPlan&);
  void (*lightning_indexer_grad)(const AttentionPlan&, const TokenGradPlan&, const ForwardScratch&,
                                 int threads);
  int64_t (*sparse_flash_attention_thread_size)(const AttentionPlan&, const SparsePlan&);
  void (*sparse_flash_attention)(const AttentionPlan&, const SparsePlan&, const ForwardScratch&,
                                 int threads);
  int64_t (*sparse_flash_attention_grad_thread_size)(const AttentionPlan&, const SparseGradPlan&);
  void (*sparse_flash_attention_grad)(const AttentionPlan&, const SparseGradPlan&,
                                      const ForwardScratch&, int threads);
  int64_t (*sparse_kl_loss_thread_size)(const KLPlan&);
  void (*sparse_kl_loss)(const KLPlan&, const ForwardScratch&, int threads);
  int64_t (*dense_kl_loss_thread_size)(const DenseKLPlan&);
  void (*dense_kl_loss)(const DenseKLPlan&, const ForwardScratch&, int threads);
  int64_t (*index_log_sum_thread_size)(const AttentionPlan&, const TokenPlan&);
  void (*index_log_sum)(const AttentionPlan&, const TokenPlan&, const StatisticRows&, const Wave&,
                        const ForwardScratch&, int threads);
  int64_t (*compress_thread_size)(const CompressPlan&);
  void (*compress)(const CompressPlan&, const CompressScratch&, int threads);
  int64_t (*compress_grad_thread_size)(const CompressPlan&);
  void (*compress_grad)(const CompressGradPlan&, const CompressScratch&, float* partial,
                        int threads);
  int64_t (*decode_thread_size)(const DecodePlan&, int64_t max_cmp_keys, int64_t max_blocks);
  void (*decode)(const DecodePlan&, const DecodeWave&, const DecodeScratch&, int threads);
  void (*compress_last_windows)(const NsaCompressWithCacheParams&, float* scratch);
  void (*linear_rows)(const NsaLinearParams&, int64_t row);  // kLinearRows of them
  // left_words: of the rows that a work item packs, 0 of a WeightProduct.
  int64_t (*product_thread_size)(int64_t left_words);
  void (*row_product)(const RowProduct&, const ProductScratch&, int threads);
  void (*weight_product)(const WeightProduct&, const ProductScratch&, int threads);
  void (*round_rows)(ElemType, const float* src, int64_t n, void* dst);
  void (*widen_rows)(ElemType, const void* src, int64_t n, float* dst);
};

// The table of the instruction set in use.
const KernelTable& kernels();

}  // namespace nsa::cpu
