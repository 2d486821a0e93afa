// Kernel entry of NsaCacheStep: a cube core and two vector cores to a block.
#include "ascendc/common/keep_nan.h"
#include "ascendc/decoding/branch_mix.h"
#include "ascendc/decoding/decode_row_ranking.h"
#include "ascendc/decoding/split_attention.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_compress.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_finish.h"
#include "ascendc/nsa_cache_step/op_kernel/nsa_cache_step_keys.h"

using nsa::ascend::NsaCacheStepTilingData;

namespace nsa::ascend {

// The stages, between which all cores wait for each other.
template <typename T>
class CacheStepKernel {
 public:
  __aicore__ inline CacheStepKernel(AscendC::TPipe* pipe, const NsaCacheStepArguments& g)
      : pipe_(pipe), g_(g), t_(*g.tiling), w_(*g.tiling) {}

  __aicore__ inline void Process() {
    OnVectors<StepWrite<T>>();
    ReadAnew();
    if (t_.sparse == 0) {
      Attend<LastTokens, NoRanking>(t_.selected,
                                    Branch(g_.selected, t_.selected_places, g_.result));
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
    GM_ADDR compressed_out = g_.step_workspace + w_.outputs;
    GM_ADDR selected_out = compressed_out + w_.output;
    GM_ADDR window_out = selected_out + w_.output;
    Attend<CompressedTokens, DecodeRowRanking<CompressedTokens>>(
        t_.compressed, Branch(g_.others, t_.compressed_places, compressed_out));
    ReadAnew();
    Attend<ChosenTokens, NoRanking>(t_.selected,
                                    Branch(g_.selected, t_.selected_places, selected_out));
    if (t_.shared != 0) {
      Attend<LastTokens, NoRanking>(t_.window, Branch(g_.selected, t_.selected_places, window_out));
    } else {
      StepBranchArguments ring = Branch(g_.others, t_.window_places, window_out);
      ring.fresh_key = g_.step_workspace + w_.window_keys;
      ring.fresh_value = g_.step_workspace + w_.window_values;
      Attend<RingTokens, NoRanking>(t_.window, ring);
    }
  }

  // Scalars read what other cores have just written: the lengths of the rows, then the indices.
  __aicore__ inline void ReadAnew() {
    AscendC::GlobalTensor<int32_t> indices;
    indices.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(g_.step_workspace + w_.indices));
    AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::ENTIRE_DATA_CACHE,
                                      AscendC::DcciDst::CACHELINE_OUT>(indices);
  }

  __aicore__ inline void Mix() {
    if ASCEND_IS_AIV {
      const SplitTiling& p = t_.selected;
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

  // The arguments of a branch that reads its keys and values from one of the two caches.
  __aicore__ inline StepBranchArguments Branch(GM_ADDR cache, const StepPlaces& places,
                                               GM_ADDR output) const {
    StepBranchArguments branch{g_};
    branch.query = g_.step_workspace + w_.queries;
    branch.key = cache + places.keys_begin * static_cast<int64_t>(sizeof(T));
    branch.value = cache + places.values_begin * static_cast<int64_t>(sizeof(T));
    branch.output = output;
    branch.indices = g_.step_workspace + w_.indices;
    branch.workspace = g_.step_workspace + w_.splits;
    return branch;
  }

  template <typename Keys, typename Ranking>
  __aicore__ inline void Attend(const SplitTiling& tiling, const StepBranchArguments& branch) {
    AttendToSplits<T, Keys, Ranking>(pipe_, tiling, branch);
    pipe_->Reset();
    AscendC::SyncAll<false>();
  }

  AscendC::TPipe* pipe_;
  const NsaCacheStepArguments g_;
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
  nsa::ascend::NsaCacheStepArguments arguments;
  arguments.new_query = query;
  arguments.new_key = key;
  arguments.new_value = value;
  arguments.selected = selected_ref;
  arguments.state = state_ref;
  arguments.ends = actual_seq_len;
  arguments.gates = gates;
  arguments.weight_k = weight_k;
  arguments.weight_v = weight_v;
  arguments.position_k = position_k;
  arguments.position_v = position_v;
  arguments.others = others_ref;
  arguments.angles = angles;
  arguments.fine_angles = fine_angles;
  arguments.result = attention_out;
  arguments.step_workspace = AscendC::GetUserWorkspace(workspace);
  arguments.tiling = &tiling_data;
  AscendC::TPipe pipe;
  const nsa::ascend::KeepNan keep_nan;
  nsa::ascend::CacheStepKernel<DTYPE_SELECTED> step(&pipe, arguments);
  step.Process();
}
