// Kernel entry of NsaDecode: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/decoding/decode_row_ranking.h"
#include "ascendc/decoding/split_attention.h"
#include "ascendc/nsa_compress_attention_infer/op_kernel/nsa_compress_attention_infer_keys.h"
#include "ascendc/nsa_decode/op_kernel/nsa_decode_window.h"
#include "ascendc/nsa_selected_attention_infer/op_kernel/nsa_selected_attention_infer_keys.h"

using nsa::ascend::NsaDecodeTilingData;

namespace nsa::ascend {

struct NsaDecodeArguments {
  GM_ADDR query;
  GM_ADDR gates;
  GM_ADDR key_cmp;
  GM_ADDR value_cmp;
  GM_ADDR key_slc;
  GM_ADDR value_slc;
  GM_ADDR key_win;
  GM_ADDR value_win;
  GM_ADDR block_table;
  GM_ADDR cmp_block_table;
  GM_ADDR query_counts;
  GM_ADDR lengths;
  GM_ADDR output;
  GM_ADDR workspace;
};

// One branch after the other; all cores wait for each other in between.
template <typename T>
class Decode {
 public:
  __aicore__ inline Decode(AscendC::TPipe* pipe, const NsaDecodeTilingData& tiling,
                           const NsaDecodeArguments& g)
      : pipe_(pipe), t_(tiling), g_(g), w_(tiling) {}

  __aicore__ inline void Process() {
    GM_ADDR outputs = g_.workspace;
    GM_ADDR blocks = g_.workspace + w_.BlocksBegin();
    GM_ADDR splits = g_.workspace + w_.SplitsBegin();
    Attend<CompressedKeys, DecodeRowRanking<CompressedKeys>>(
        t_.compressed.splits,
        {g_.query, g_.key_cmp, g_.value_cmp, g_.cmp_block_table, g_.query_counts, nullptr,
         g_.lengths, outputs, blocks, splits, &t_.compressed});
    // Scalars read the blocks, which other cores have written.
    AscendC::GlobalTensor<int32_t> chosen;
    chosen.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(blocks));
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::ENTIRE_DATA_CACHE,
                                      AscendC::DcciDst::CACHELINE_OUT>(chosen);
    Attend<SelectedKeys, NoRanking>(
        t_.selected.splits,
        {g_.query, g_.key_slc, g_.value_slc, blocks, g_.block_table, g_.query_counts, g_.lengths,
         outputs + w_.branch, splits, &t_.selected});
    Attend<WindowKeys, NoRanking>(t_.window, {g_.query, g_.key_win, g_.value_win, g_.query_counts,
                                              g_.lengths, outputs + 2 * w_.branch, splits, &t_});
    if ASCEND_IS_AIV {
      BranchMix<T> mix;
      mix.Init(pipe_, {t_.window.queries, t_.window.heads * t_.window.group, t_.window.value_dim},
               g_.gates, outputs, w_.branch / static_cast<int64_t>(sizeof(T)), g_.output);
      mix.Process();
    }
  }

 private:
  template <typename Keys, typename Ranking>
  __aicore__ inline void Attend(const SplitTiling& tiling, const typename Keys::Arguments& g) {
    AttendToSplits<T, Keys, Ranking>(pipe_, tiling, g);
    pipe_->Reset();
    AscendC::SyncAll<false>();
  }

  AscendC::TPipe* pipe_;
  const NsaDecodeTilingData& t_;
  const NsaDecodeArguments& g_;
  const NsaDecodeWorkspace w_;
};

}  // namespace nsa::ascend

extern "C" __global__ __aicore__ void msnsa_decode(GM_ADDR query, GM_ADDR gates, GM_ADDR key_cmp,
                                                   GM_ADDR value_cmp, GM_ADDR key_slc,
                                                   GM_ADDR value_slc, GM_ADDR key_win,
                                                   GM_ADDR value_win, GM_ADDR block_table,
                                                   GM_ADDR cmp_block_table, GM_ADDR actual_seq_qlen,
                                                   GM_ADDR actual_seq_kvlen, GM_ADDR attention_out,
                                                   GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(NsaDecodeTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaDecodeTilingData, tiling_data, tiling);
  const nsa::ascend::NsaDecodeArguments arguments{
      query,           gates,
      key_cmp,         value_cmp,
      key_slc,         value_slc,
      key_win,         value_win,
      block_table,     cmp_block_table,
      actual_seq_qlen, actual_seq_kvlen,
      attention_out,   AscendC::GetUserWorkspace(workspace)};
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  nsa::ascend::Decode<DTYPE_QUERY> decode(&pipe, tiling_data, arguments);
  decode.Process();
}
