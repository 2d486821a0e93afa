// Kernel entry of NsaCacheStep: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/decoding/branch_mix.h"
#include "ascendc/decoding/cell_ranking.h"
#include "ascendc/decoding/parts_attention.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_compress.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_finish.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_keys.h"

using nsa::ascend::NsaCacheStepTilingData;

namespace nsa::ascend {

// The stages, between which all cores wait for each other.
template <typename T>
class CacheStep {
 public:
  __aicore__ inline CacheStep(AscendC::TPipe* pipe, const NsaCacheStepArguments& g)
      : pipe_(pipe), g_(g), t_(*g.tiling), w_(*g.tiling) {
    g_.query = g.step_workspace + w_.queries;
    g_.indices = g.step_workspace + w_.indices;
    g_.workspace = g.step_workspace + w_.parts;
  }

  __aicore__ inline void Process() {
    OnVectors<StepWrite<T>>();
    ReadAnew();
    if (t_.sparse == 0) {
      Attend<LastTokens, NoRanking>(t_.parts, g_.selected, t_.selected_places, g_.result);
    } else {
      OnVectors<StepCompress<T>>();
      Branches();
      Mix();
      OnVectors<StepRing<T>>();
    }
    OnVectors<StepState>(false);
  }

 private:
  __aicore__ inline void Branches() {
    GM_ADDR outputs = g_.step_workspace + w_.outputs;
    Attend<CompressedTokens, CellRanking<CompressedTokens>>(t_.compressed, g_.others,
                                                            t_.compressed_places, outputs);
    ReadAnew();
    Attend<ChosenTokens, NoRanking>(t_.parts, g_.selected, t_.selected_places, outputs + w_.output);
    if (t_.shared != 0) {
      Attend<LastTokens, NoRanking>(t_.window, g_.selected, t_.selected_places,
                                    outputs + 2 * w_.output);
    } else {
      g_.fresh_key = g_.step_workspace + w_.window_keys;
      g_.fresh_value = g_.step_workspace + w_.window_values;
      Attend<RingTokens, NoRanking>(t_.window, g_.others, t_.window_places,
                                    outputs + 2 * w_.output);
    }
  }

  // Scalars read what other cores have just written: the lengths of the rows, then the indices.
  __aicore__ inline void ReadAnew() {
    AscendC::GlobalTensor<int32_t> indices;
    indices.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(g_.indices));
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::ENTIRE_DATA_CACHE,
                                      AscendC::DcciDst::CACHELINE_OUT>(indices);
  }

  __aicore__ inline void Mix() {
    if ASCEND_IS_AIV {
      const PartsTiling& p = t_.parts;
      BranchMix<T> mix;
      mix.Init(pipe_, {p.queries, p.heads * p.group, p.value_dim}, g_.gates,
               g_.step_workspace + w_.outputs, w_.output / static_cast<int64_t>(sizeof(T)),
               g_.result);
      mix.Process();
      pipe_->Reset();
    }
  }

  template <typename Stage>
  __aicore__ inline void OnVectors(bool wait = true) {
    if ASCEND_IS_AIV {
      Stage stage;
      stage.Init(pipe_, g_);
      stage.Process();
      pipe_->Reset();
    }
    if (wait) AscendC::SyncAll<false>();
  }

  template <typename Keys, typename Ranking>
  __aicore__ inline void Attend(const PartsTiling& tiling, GM_ADDR cache, const StepPlaces& places,
                                GM_ADDR output) {
    g_.key = cache + places.keys_begin * static_cast<int64_t>(sizeof(T));
    g_.value = cache + places.values_begin * static_cast<int64_t>(sizeof(T));
    g_.output = output;
    AttendToParts<T, Keys, Ranking>(pipe_, tiling, g_);
    pipe_->Reset();
    AscendC::SyncAll<false>();
  }

  AscendC::TPipe* pipe_;
  NsaCacheStepArguments g_;
  const NsaCacheStepTilingData& t_;
  const StepWorkspace w_;
};

}  // namespace nsa::ascend

// The caches and their state are inputs and outputs, of the same memory.
extern "C" __global__ __aicore__ void msnsa_cache_step(
    GM_ADDR query, GM_ADDR key, GM_ADDR value, [[maybe_unused]] GM_ADDR selected,
    [[maybe_unused]] GM_ADDR state, GM_ADDR actual_seq_len, GM_ADDR gates, GM_ADDR weight_k,
    GM_ADDR weight_v, GM_ADDR position_k, GM_ADDR position_v, [[maybe_unused]] GM_ADDR others,
    GM_ADDR angles, GM_ADDR fine_angles, GM_ADDR attention_out, GM_ADDR selected_ref,
    GM_ADDR state_ref, GM_ADDR others_ref, GM_ADDR workspace, GM_ADDR tiling) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  REGISTER_TILING_DEFAULT(NsaCacheStepTilingData);
  GET_TILING_DATA_WITH_STRUCT(NsaCacheStepTilingData, tiling_data, tiling);
  const nsa::ascend::NsaCacheStepArguments arguments{
      query,         key,
      value,         selected_ref,
      state_ref,     actual_seq_len,
      gates,         weight_k,
      weight_v,      position_k,
      position_v,    others_ref,
      angles,        fine_angles,
      attention_out, AscendC::GetUserWorkspace(workspace),
      &tiling_data};
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  nsa::ascend::CacheStep<DTYPE_SELECTED> step(&pipe, arguments);
  step.Process();
}
