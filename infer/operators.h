// The native operators, each once: its name, that of its functions, and the number of its outputs.
// Whatever has an entry for every operator is made from this list: OpId, the registry of the rules,
// the table of the kernels, the functions that MindSpore looks up.
#pragma once

#define NSA_OPERATORS(OP)                                                        \
  OP(NsaCompress, nsa_compress, 1)                                               \
  OP(NsaCompressGrad, nsa_compress_grad, 2)                                      \
  OP(NsaCompressAttention, nsa_compress_attention, 4)                            \
  OP(NsaSelectedAttention, nsa_selected_attention, 3)                            \
  OP(NsaSelectedAttentionGrad, nsa_selected_attention_grad, 3)                   \
  OP(FlashAttentionScore, flash_attention_score, 3)                              \
  OP(FlashAttentionScoreGrad, flash_attention_score_grad, 5)                     \
  OP(NsaCompressWithCache, nsa_compress_with_cache, 1)                           \
  OP(NsaCompressAttentionInfer, nsa_compress_attention_infer, 2)                 \
  OP(NsaSelectedAttentionInfer, nsa_selected_attention_infer, 1)                 \
  OP(NsaCacheStep, nsa_cache_step, 1)                                            \
  OP(NsaDecode, nsa_decode, 1)                                                   \
  OP(NsaSplitHeads, nsa_split_heads, 9)                                          \
  OP(NsaSplitHeadsGrad, nsa_split_heads_grad, 2)                                 \
  OP(NsaMixBranches, nsa_mix_branches, 1)                                        \
  OP(NsaMixBranchesGrad, nsa_mix_branches_grad, 4)                               \
  OP(NsaRound, nsa_round, 1)                                                     \
  OP(NsaLinear, nsa_linear, 1)                                                   \
  OP(NsaProjection, nsa_projection, 3)                                           \
  OP(NsaProjectionInputGrad, nsa_projection_input_grad, 1)                       \
  OP(NsaProjectionWeightGrad, nsa_projection_weight_grad, 3)                     \
  OP(NsaDropoutMask, dropout_mask, 1)                                            \
  OP(BlockIndexer, block_indexer, 1)                                             \
  OP(LightningIndexer, lightning_indexer, 2)                                     \
  OP(LightningIndexerGrad, lightning_indexer_grad, 3)                            \
  OP(SparseFlashAttention, sparse_flash_attention, 3)                            \
  OP(SparseFlashAttentionGrad, sparse_flash_attention_grad, 6)                   \
  OP(SparseLightningIndexerGradKLLoss, sparse_lightning_indexer_grad_kl_loss, 4) \
  OP(DenseLightningIndexerSoftmaxLse, dense_lightning_indexer_softmax_lse, 2)    \
  OP(DenseLightningIndexerGradKLLoss, dense_lightning_indexer_grad_kl_loss, 4)
