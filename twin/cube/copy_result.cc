// Fixpipe and DataCopy from L0C in terms of the registers that they set and obey.
#include "twin/cube/fixpipe.h"

namespace twin {

using AscendC::DataCopyCO12DstParams;
using AscendC::FixpipeParamsV220;

void RunFixpipe(const Operand& dst, const Operand& src, const Operand* factors,
                const FixpipeParamsV220& params, bool to_nd, const Where& where) {
  const char* name = "Fixpipe";
  Core& core = ThisCore(name, where);
  if (factors != nullptr && factors->local->memory() != Hardware::L1) {
    Fail(name, where,
         Format("cbufWorkspace lies in %s, it has to lie in L1",
                MemoryName(factors->local->memory())));
  }
  const bool to_l1 = dst.local != nullptr;
  // Fixpipe to GM, and one that loads factors of columns, begins with a barrier.
  RunFixpipe({name, to_nd, !to_l1 || factors != nullptr, factors}, dst, src, params, where);
  CubeState& state = CubeStateOf(core);
  if (to_nd) {
    state.nd_num = params.ndNum;
    state.src_nd_stride = params.srcNdStride;
    state.dst_nd_stride = params.dstNdStride;
    state.nd_set = true;
  }
  if (params.quantPre == QuantMode_t::DEQF16) {
    state.factor = params.deqScalar;
    state.factor_set = true;
  }
  // Its own factors went to a place in the fixpipe buffer that no later call can name.
  if (factors != nullptr) state.factors_set = false;
}

void CopyResult(const Operand& dst, const Operand& src, const DataCopyCO12DstParams& params,
                const Where& where) {
  const char* name = "DataCopy";
  const auto check = [&](bool legal, const char* text) {
    if (!legal) Fail(name, where, text);
  };
  Core& core = ThisCore(name, where);
  check(core.cube, "a result lies in L0C, which an AIV does not have");
  const CubeState& state = CubeStateOf(core);
  check(params.clipReluPre == 0, "clipReluPre is not 0; this architecture has no ClipReLU");
  check(params.eltWiseOp == 0,
        "eltWiseOp is not 0; this architecture has no element-wise operation");
  check(params.reluPre <= 1, "reluPre has to be 0 or 1");
  check(dst.global != nullptr || !params.nz2ndEn, "nz2ndEn is only for L0C to GM");
  FixpipeParamsV220 p;
  p.nSize = params.nSize;
  p.mSize = params.mSize;
  p.srcStride = params.srcStride;
  p.dstStride = params.dstStride;
  p.quantPre = params.quantPre;
  p.reluEn = params.reluPre == 1;
  p.unitFlag = params.unitFlag;
  p.isChannelSplit = params.channelSplit;
  if (params.nz2ndEn) {
    check(state.nd_set, "nz2ndEn is true and SetFixpipeNz2ndFlag was not called");
    p.ndNum = state.nd_num;
    p.srcNdStride = state.src_nd_stride;
    p.dstNdStride = state.dst_nd_stride;
  }
  if (params.quantPre == QuantMode_t::DEQF16) {
    check(state.factor_set, "quantPre is DEQF16 and SetFixpipePreQuantFlag was not called");
    p.deqScalar = state.factor;
  }
  const bool columns = params.quantPre == QuantMode_t::VDEQF16;
  check(!columns || state.factors_set, "quantPre is VDEQF16 and SetFixPipeConfig was not called");
  const Operand factors("factors", "uint64_t", 8, state.factors);
  RunFixpipe({name, params.nz2ndEn, false, columns ? &factors : nullptr}, dst, src, p, where);
}

}  // namespace twin
