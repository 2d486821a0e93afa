// aclnn functions under CANN's names and with its argument lists, each a call of this project's
// function of that kernel. They are on the twin only: in a package for CANN they would take the
// place of CANN's own.
#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "aclnnop/aclnn_msnsa_compress.h"
#include "aclnnop/aclnn_msnsa_compress_attention.h"
#include "aclnnop/aclnn_msnsa_compress_grad.h"
#include "aclnnop/aclnn_msnsa_flash_attention.h"
#include "aclnnop/aclnn_msnsa_flash_attention_grad.h"
#include "aclnnop/aclnn_msnsa_selected_attention.h"
#include "aclnnop/aclnn_msnsa_selected_attention_grad.h"
#include "aclnnop/aclnn_nsa_compress.h"
#include "aclnnop/aclnn_nsa_compress_attention.h"
#include "aclnnop/aclnn_nsa_compress_grad.h"
#include "aclnnop/aclnn_nsa_selected_attention.h"
#include "aclnnop/aclnn_nsa_selected_attention_grad.h"
#include "ascendc/op_api/forward.h"

aclnnStatus aclnnNsaCompressGetWorkspaceSize(const aclTensor* input, const aclTensor* weight,
                                             const aclIntArray* actSeqLenOptional,
                                             char* layoutOptional, int64_t compressBlockSize,
                                             int64_t compressStride, int64_t actSeqLenType,
                                             aclTensor* output, uint64_t* workspaceSize,
                                             aclOpExecutor** executor) {
  return nsa::forward("MsnsaCompress", reinterpret_cast<void*>(&aclnnMsnsaCompressGetWorkspaceSize),
                      {{"input", input},
                       {"weight", weight},
                       {"actSeqLenOptional", actSeqLenOptional},
                       {"layoutOptional", layoutOptional},
                       {"compressBlockSize", compressBlockSize},
                       {"compressStride", compressStride},
                       {"actSeqLenType", actSeqLenType},
                       {"out", output}},
                      workspaceSize, executor);
}

aclnnStatus aclnnNsaCompress(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                             aclrtStream stream) {
  return aclnnMsnsaCompress(workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnNsaCompressGradGetWorkspaceSize(
    const aclTensor* outputGrad, const aclTensor* input, const aclTensor* weight,
    const aclIntArray* actSeqLenOptional, int64_t compressBlockSize, int64_t compressStride,
    int64_t actSeqLenType, char* layoutOptional, const aclTensor* inputGradOut,
    const aclTensor* weightGradOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return nsa::forward("MsnsaCompressGrad",
                      reinterpret_cast<void*>(&aclnnMsnsaCompressGradGetWorkspaceSize),
                      {{"outputGrad", outputGrad},
                       {"input", input},
                       {"weight", weight},
                       {"actSeqLenOptional", actSeqLenOptional},
                       {"compressBlockSize", compressBlockSize},
                       {"compressStride", compressStride},
                       {"actSeqLenType", actSeqLenType},
                       {"layoutOptional", layoutOptional},
                       {"inputGradOut", inputGradOut},
                       {"weightGradOut", weightGradOut}},
                      workspaceSize, executor);
}

aclnnStatus aclnnNsaCompressGrad(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                 aclrtStream stream) {
  return aclnnMsnsaCompressGrad(workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnNsaCompressAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* attenMaskOptional, const aclTensor* topkMaskOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualCmpSeqKvLenOptional,
    const aclIntArray* actualSelSeqKvLenOptional, double scaleValue, int64_t headNum,
    char* inputLayout, int64_t sparseMode, int64_t compressBlockSize, int64_t compressStride,
    int64_t selectBlockSize, int64_t selectBlockCount, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* attentionOutOut,
    const aclTensor* topkIndicesOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return nsa::forward("MsnsaCompressAttention",
                      reinterpret_cast<void*>(&aclnnMsnsaCompressAttentionGetWorkspaceSize),
                      {{"query", query},
                       {"key", key},
                       {"value", value},
                       {"attenMaskOptional", attenMaskOptional},
                       {"topkMaskOptional", topkMaskOptional},
                       {"actualSeqQLenOptional", actualSeqQLenOptional},
                       {"actualCmpSeqKvLenOptional", actualCmpSeqKvLenOptional},
                       {"actualSelSeqKvLenOptional", actualSelSeqKvLenOptional},
                       {"scaleValue", scaleValue},
                       {"headNum", headNum},
                       {"inputLayout", inputLayout},
                       {"sparseMode", sparseMode},
                       {"compressBlockSize", compressBlockSize},
                       {"compressStride", compressStride},
                       {"selectBlockSize", selectBlockSize},
                       {"selectBlockCount", selectBlockCount},
                       {"softmaxMaxOut", softmaxMaxOut},
                       {"softmaxSumOut", softmaxSumOut},
                       {"attentionOutOut", attentionOutOut},
                       {"topkIndicesOut", topkIndicesOut},
                       {"causal", 0},
                       {"initBlocks", 0},
                       {"localBlocks", 0},
                       {"importance", "cann"}},
                      workspaceSize, executor);
}

aclnnStatus aclnnNsaCompressAttention(void* workspace, uint64_t workspaceSize,
                                      aclOpExecutor* executor, aclrtStream stream) {
  return aclnnMsnsaCompressAttention(workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnNsaSelectedAttentionGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* topkIndices, const aclTensor* attenMaskOptional,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional,
    double scaleValue, int64_t headNum, char* inputLayout, int64_t sparseMode,
    int64_t selectedBlockSize, int64_t selectedBlockCount, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* attentionOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return nsa::forward("MsnsaSelectedAttention",
                      reinterpret_cast<void*>(&aclnnMsnsaSelectedAttentionGetWorkspaceSize),
                      {{"query", query},
                       {"key", key},
                       {"value", value},
                       {"topkIndices", topkIndices},
                       {"attenMaskOptional", attenMaskOptional},
                       {"actualSeqQLenOptional", actualSeqQLenOptional},
                       {"actualSeqKvLenOptional", actualSeqKvLenOptional},
                       {"scaleValue", scaleValue},
                       {"headNum", headNum},
                       {"inputLayout", inputLayout},
                       {"sparseMode", sparseMode},
                       {"selectedBlockSize", selectedBlockSize},
                       {"selectedBlockCount", selectedBlockCount},
                       {"softmaxMaxOut", softmaxMaxOut},
                       {"softmaxSumOut", softmaxSumOut},
                       {"attentionOutOut", attentionOut}},
                      workspaceSize, executor);
}

aclnnStatus aclnnNsaSelectedAttention(void* workspace, uint64_t workspaceSize,
                                      aclOpExecutor* executor, aclrtStream stream) {
  return aclnnMsnsaSelectedAttention(workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnNsaSelectedAttentionGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* attentionOut, const aclTensor* attentionOutGrad, const aclTensor* softmaxMax,
    const aclTensor* softmaxSum, const aclTensor* topkIndices,
    const aclIntArray* actualSeqQLenOptional, const aclIntArray* actualSeqKvLenOptional,
    const aclTensor* attenMaskOptional, double scaleValue, int64_t selectedBlockSize,
    int64_t selectedBlockCount, int64_t headNum, char* inputLayout, int64_t sparseMode,
    const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return nsa::forward("MsnsaSelectedAttentionGrad",
                      reinterpret_cast<void*>(&aclnnMsnsaSelectedAttentionGradGetWorkspaceSize),
                      {{"query", query},
                       {"key", key},
                       {"value", value},
                       {"attentionOut", attentionOut},
                       {"attentionOutGrad", attentionOutGrad},
                       {"softmaxMax", softmaxMax},
                       {"softmaxSum", softmaxSum},
                       {"topkIndices", topkIndices},
                       {"actualSeqQLenOptional", actualSeqQLenOptional},
                       {"actualSeqKvLenOptional", actualSeqKvLenOptional},
                       {"attenMaskOptional", attenMaskOptional},
                       {"scaleValue", scaleValue},
                       {"selectedBlockSize", selectedBlockSize},
                       {"selectedBlockCount", selectedBlockCount},
                       {"headNum", headNum},
                       {"inputLayout", inputLayout},
                       {"sparseMode", sparseMode},
                       {"dqOut", dqOut},
                       {"dkOut", dkOut},
                       {"dvOut", dvOut}},
                      workspaceSize, executor);
}

aclnnStatus aclnnNsaSelectedAttentionGrad(void* workspace, uint64_t workspaceSize,
                                          aclOpExecutor* executor, aclrtStream stream) {
  return aclnnMsnsaSelectedAttentionGrad(workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  return nsa::forward("MsnsaFlashAttention",
                      reinterpret_cast<void*>(&aclnnMsnsaFlashAttentionGetWorkspaceSize),
                      {{"query", query},
                       {"key", key},
                       {"value", value},
                       {"realShiftOptional", realShiftOptional},
                       {"dropMaskOptional", dropMaskOptional},
                       {"paddingMaskOptional", paddingMaskOptional},
                       {"attenMaskOptional", attenMaskOptional},
                       {"prefixOptional", prefixOptional},
                       {"scaleValue", scaleValue},
                       {"keepProb", keepProb},
                       {"preTokens", preTokens},
                       {"nextTokens", nextTokens},
                       {"headNum", headNum},
                       {"inputLayout", inputLayout},
                       {"innerPrecise", innerPrecise},
                       {"sparseMode", sparseMode},
                       {"softmaxMaxOut", softmaxMaxOut},
                       {"softmaxSumOut", softmaxSumOut},
                       {"softmaxOutOut", softmaxOutOut},
                       {"attentionOutOut", attentionOutOut},
                       {"pseType", 1}},
                      workspaceSize, executor);
}

aclnnStatus aclnnFlashAttentionScore(void* workspace, uint64_t workspaceSize,
                                     aclOpExecutor* executor, aclrtStream stream) {
  return aclnnMsnsaFlashAttention(workspace, workspaceSize, executor, stream);
}

aclnnStatus aclnnFlashAttentionScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const bool pse = pseShiftOptional != nullptr && dpseOut != nullptr;
  return nsa::forward("MsnsaFlashAttentionGrad",
                      reinterpret_cast<void*>(&aclnnMsnsaFlashAttentionGradGetWorkspaceSize),
                      {{"query", query},
                       {"keyIn", keyIn},
                       {"value", value},
                       {"dy", dy},
                       {"pseShiftOptional", pseShiftOptional},
                       {"dropMaskOptional", dropMaskOptional},
                       {"paddingMaskOptional", paddingMaskOptional},
                       {"attenMaskOptional", attenMaskOptional},
                       {"softmaxMaxOptional", softmaxMaxOptional},
                       {"softmaxSumOptional", softmaxSumOptional},
                       {"softmaxInOptional", softmaxInOptional},
                       {"attentionInOptional", attentionInOptional},
                       {"prefixOptional", prefixOptional},
                       {"scaleValue", scaleValue},
                       {"keepProb", keepProb},
                       {"preTokens", preTokens},
                       {"nextTokens", nextTokens},
                       {"headNum", headNum},
                       {"inputLayout", inputLayout},
                       {"innerPrecise", innerPrecise},
                       {"sparseMode", sparseMode},
                       {"dqOut", dqOut},
                       {"dkOut", dkOut},
                       {"dvOut", dvOut},
                       {"dpseOut", dpseOut, nsa::NamedValue::kMayBeNull},
                       {"pseType", 1},
                       {"compressBlockSize", 0},
                       {"compressStride", 0},
                       {"pseGrad", pse ? 1 : 0}},
                      workspaceSize, executor);
}

aclnnStatus aclnnFlashAttentionScoreGrad(void* workspace, uint64_t workspaceSize,
                                         aclOpExecutor* executor, aclrtStream stream) {
  return aclnnMsnsaFlashAttentionGrad(workspace, workspaceSize, executor, stream);
}
