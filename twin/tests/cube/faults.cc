// Kernels with a fault. Buffers: A [32, 32], B [32, 32] of half, a float result [32, 32].
#include "twin/tests/cube/kernels.h"

using namespace cube_test;

namespace {

LocalTensor<half> L1A() { return At<half>(TPosition::A1, 0, 64 * 1024); }
LocalTensor<half> L1B() { return At<half>(TPosition::B1, 64 * 1024, 64 * 1024); }
LocalTensor<half> L0A() { return At<half>(TPosition::A2, 0, 64 * 1024); }
LocalTensor<half> L0B() { return At<half>(TPosition::B2, 0, 64 * 1024); }
LocalTensor<float> L0C() { return At<float>(TPosition::CO1, 0, 128 * 1024); }

template <HardEvent event>
void SyncUnless(int64_t left_out, twin::Where where = twin::Here()) {
  if (left_out != static_cast<int64_t>(event)) Order<event>(0, where);
}

void CopyIn(GM_ADDR* g) {
  const Nd2NzParams params(1, 32, 32, 0, 32, 32, 1, 0);
  DataCopy(L1A(), harness::Global<half>(g[0]), params);
  DataCopy(L1B(), harness::Global<half>(g[1]), params);
}
void Split() {
  LoadData3DParamsV2<half> params;
  params.l1H = 1;
  params.l1W = params.channelSize = params.mExtension = params.kExtension = 32;
  LoadData(L0A(), L1A(), params);
  LoadData(L0B(), L1B(), params);
}
MmadParams MmadOf(int64_t m, int64_t n, int64_t k, int64_t unit_flag = 0, bool zero = true) {
  return MmadParams(m, n, k, unit_flag, false, zero);
}
FixpipeParamsV220 FixpipeOf(int64_t n, int64_t m, int64_t unit_flag = 0) {
  FixpipeParamsV220 params(n, m, (m + 15) / 16 * 16, static_cast<uint32_t>(n), false);
  params.unitFlag = unit_flag;
  return params;
}
// A and B in L0A and L0B.
void Operands(GM_ADDR* g) {
  CopyIn(g);
  Order<HardEvent::MTE2_MTE1>();
  Split();
  Order<HardEvent::MTE1_M>();
}
void Store(GM_ADDR* g, int64_t unit_flag = 0) {
  Fixpipe<float, float, CFG_ROW_MAJOR>(harness::Global<float>(g[2]), L0C(),
                                       FixpipeOf(32, 32, unit_flag));
}
// C in L0C and known to the FIX pipe.
void Result(GM_ADDR* g) {
  Operands(g);
  Mmad(L0C(), L0A(), L0B(), MmadOf(32, 32, 32));
  Order<HardEvent::M_FIX>();
}

}  // namespace

// Two products through the same buffers; p[0] is the HardEvent left out, -1 for none.
KERNEL(pipeline) {
  for (int round = 0; round < 2; ++round) {
    CopyIn(g);
    SyncUnless<HardEvent::MTE2_MTE1>(p[0]);
    Split();
    SyncUnless<HardEvent::MTE1_M>(p[0]);
    Mmad(L0C(), L0A(), L0B(), MmadOf(32, 32, 32));
    SyncUnless<HardEvent::M_FIX>(p[0]);
    Store(g);
    SyncUnless<HardEvent::MTE1_MTE2>(p[0]);
    SyncUnless<HardEvent::M_MTE1>(p[0]);
    SyncUnless<HardEvent::FIX_M>(p[0]);
  }
}

// p: m, n, k, byte of dst, of fm and of filter.
KERNEL(mmad_of) {
  Operands(g);
  Mmad(L0C()[static_cast<uint32_t>(p[3] / 4)], L0A()[static_cast<uint32_t>(p[4] / 2)],
       L0B()[static_cast<uint32_t>(p[5] / 2)], MmadOf(p[0], p[1], p[2], p[6]));
}
KERNEL(mmad_dst_in_l0a) {
  Operands(g);
  Mmad(L0A().ReinterpretCast<float>(), L0A(), L0B(), MmadOf(16, 16, 16));
}
KERNEL(mmad_without_load) { Mmad(L0C(), L0A(), L0B(), MmadOf(16, 16, 16)); }
KERNEL(mmad_accumulates_on_nothing) {
  Operands(g);
  Mmad(L0C(), L0A(), L0B(), MmadOf(16, 16, 16, 0, false));
}
// p: m, n; a second product on the same tile without a barrier.
KERNEL(accumulate) {
  auto a = L0A(), b = L0B();
  Fill(a, InitConstValueParams<half>(1, 16, 0, half(1)));
  Fill(b, InitConstValueParams<half>(1, 16, 0, half(1)));
  Order<HardEvent::MTE1_M>();
  Mmad(L0C(), a, b, MmadOf(p[0], p[1], 16));
  if (p[2]) PipeBarrier<PIPE_M>();
  Mmad(L0C(), a, b, MmadOf(p[0], p[1], 16, 0, false));
}
// K is 20, and rows 20 to 31 of B hold nothing: the product of 24 reads them.
KERNEL(mmad_beyond_k) {
  DataCopy(L1A(), harness::Global<half>(g[0]), Nd2NzParams(1, 32, 32, 0, 32, 32, 1, 0));
  DataCopy(L1B(), harness::Global<half>(g[1]), Nd2NzParams(1, 20, 32, 0, 32, 32, 1, 0));
  Order<HardEvent::MTE2_MTE1>();
  Split();
  Order<HardEvent::MTE1_M>();
  Mmad(L0C(), L0A(), L0B(), MmadOf(32, 32, p[0]));
}

// p: unitFlag of two Mmads and of Fixpipe, -1 to leave an instruction out.
KERNEL(unit_flags) {
  Operands(g);
  Mmad(L0C(), L0A(), L0B(), MmadOf(32, 32, 32, p[0]));
  if (p[1] >= 0) {
    PipeBarrier<PIPE_M>();
    Mmad(L0C(), L0A(), L0B(), MmadOf(32, 32, 32, p[1], false));
  }
  if (p[3]) Order<HardEvent::M_FIX>();
  if (p[2] >= 0) Store(g, p[2]);
}
// Tiles through one part of L0C, with nothing but the unit flag between Mmad and Fixpipe. Then L0A
// is loaded anew: p[0] is 1 with an event that makes MTE1 wait for the last Fixpipe.
KERNEL(unit_flags_of_tiles) {
  Operands(g);
  for (int tile = 0; tile < 3; ++tile) {
    Mmad(L0C(), L0A(), L0B(), MmadOf(32, 32, 32, 2));
    PipeBarrier<PIPE_M>();
    Mmad(L0C(), L0A(), L0B(), MmadOf(32, 32, 32, 3, false));
    PipeBarrier<PIPE_FIX>();
    Store(g, 3);
  }
  if (p[0]) Order<HardEvent::FIX_MTE1>();
  Split();
}
KERNEL(unit_flags_reset) {
  Operands(g);
  Mmad(L0C(), L0A(), L0B(), MmadOf(32, 32, 32, 3));
  SetFixPipeConfig(L0C(), true);
}

// p: the fields of Nd2NzParams.
KERNEL(nd2nz_of) {
  DataCopy(L1A(), harness::Global<half>(g[0]),
           Nd2NzParams(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]));
}
KERNEL(nd2nz_to_odd_address) {
  DataCopy(L1A()[8], harness::Global<half>(g[0]), Nd2NzParams(1, 16, 16, 0, 32, 16, 1, 0));
}

// p: the fields of LoadData2DParams, byte of dst.
KERNEL(load2d_of) {
  CopyIn(g);
  Order<HardEvent::MTE2_MTE1>();
  LoadData(L0A()[static_cast<uint32_t>(p[7] / 2)], L1A(),
           LoadData2DParams(p[0], p[1], p[2], p[3], p[4], p[5] != 0, p[6]));
}
KERNEL(load2d_transposes_float) {
  Fill(L1A(), InitConstValueParams<half>(1, 64, 0, half(1)));
  Order<HardEvent::MTE2_MTE1>();
  LoadData(L0A().ReinterpretCast<float>(), L1A().ReinterpretCast<float>(),
           LoadData2DParams(0, 1, 1, 0, 0, true, 0));
}
KERNEL(load2d_transposes_from_gm) {
  LoadData(L0A(), harness::Global<half>(g[0]), LoadData2DParams(0, 1, 1, 0, 0, true, 0));
}
// p: dstGap, dstFracGap.
KERNEL(transpose_overlaps) {
  Fill(L1A(), InitConstValueParams<half>(1, 64, 0, half(1)));
  Order<HardEvent::MTE2_MTE1>();
  LoadDataWithTranspose(L0A().ReinterpretCast<float>(), L1A().ReinterpretCast<float>(),
                        LoadData2dTransposeParams(0, 2, 1, p[0], p[1]));
}

// p: mExtension, kExtension, kStartPt, channelSize, enSmallK, strideW.
KERNEL(load3d_of) {
  CopyIn(g);
  Order<HardEvent::MTE2_MTE1>();
  LoadData3DParamsV2<half> params;
  params.l1H = 1;
  params.l1W = 32;
  params.mExtension = p[0];
  params.kExtension = p[1];
  params.kStartPt = p[2];
  params.channelSize = p[3];
  params.enSmallK = p[4] != 0;
  params.strideW = p[5];
  LoadData(L0A(), L1A(), params);
}
constexpr IsResetLoad3dConfig kFromRegisters = {false, false};
KERNEL(load3d_without_map) {
  CopyIn(g);
  Order<HardEvent::MTE2_MTE1>();
  LoadData3DParamsV2<half> params;
  params.mExtension = params.kExtension = params.channelSize = 16;
  LoadData<half, kFromRegisters>(L0A(), L1A(), params);
}
KERNEL(load3d_bytes_to_l0b) {
  CopyIn(g);
  Order<HardEvent::MTE2_MTE1>();
  LoadData3DParamsV2<int8_t> params;
  params.l1H = 1;
  params.l1W = params.mExtension = params.kExtension = params.channelSize = 32;
  LoadData(L0B().ReinterpretCast<int8_t>(), L1A().ReinterpretCast<int8_t>(), params);
}
KERNEL(sparse_without_index) {
  const auto int8 = [](auto tensor) { return tensor.template ReinterpretCast<int8_t>(); };
  CopyIn(g);
  Order<HardEvent::MTE2_MTE1>();
  Split();
  Order<HardEvent::MTE1_M>();
  MmadWithSparse(L0C().ReinterpretCast<int32_t>(), int8(L0A()), int8(L0B()),
                 MmadParams(16, 16, p[0], 0, false, true));
}
// p: boundary.
KERNEL(load3d_boundary) {
  CopyIn(g);
  Order<HardEvent::MTE2_MTE1>();
  SetLoadDataBoundary(static_cast<uint32_t>(p[0]));
  Split();
}

// p: nSize, mSize, srcStride, dstStride, quantPre, ndNum, srcNdStride, dstNdStride, byte of src.
KERNEL(fixpipe_nd) {
  Result(g);
  FixpipeParamsV220 params(p[0], p[1], p[2], p[3], false, static_cast<QuantMode_t>(p[4]), 0, p[5],
                           p[6], p[7], 0);
  Fixpipe<float, float, CFG_ROW_MAJOR>(harness::Global<float>(g[2]),
                                       L0C()[static_cast<uint32_t>(p[8] / 4)], params);
}
// p: nSize, dstStride, byte of dst, isChannelSplit.
KERNEL(fixpipe_nz) {
  Result(g);
  FixpipeParamsV220 params(p[0], 32, 32, p[1], false);
  params.isChannelSplit = p[3] != 0;
  Fixpipe<float, float, CFG_NZ>(harness::Global<float>(g[2])[p[2] / 4], L0C(), params);
}
KERNEL(fixpipe_split_in_nd) {
  Result(g);
  FixpipeParamsV220 params(32, 32, 32, 32, false);
  params.isChannelSplit = true;
  Fixpipe<float, float, CFG_ROW_MAJOR>(harness::Global<float>(g[2]), L0C(), params);
}
KERNEL(fixpipe_subnormal_factor) {
  auto c = At<int32_t>(TPosition::CO1, 0, 4096);
  FixpipeParamsV220 params(16, 16, 16, 16, false);
  params.quantPre = QuantMode_t::DEQF16;
  params.deqScalar = 1 << 13;
  Fixpipe<half, int32_t, CFG_ROW_MAJOR>(harness::Global<half>(g[2]), c, params);
}
// Two results to one place of L1, and a read of it without a flag.
KERNEL(fixpipe_l1_twice) {
  Result(g);
  FixpipeParamsV220 params(32, 32, 32, 32, false);
  params.quantPre = QuantMode_t::F322F16;
  Fixpipe<half, float, CFG_NZ>(L1A(), L0C(), params);
  Fixpipe<half, float, CFG_NZ>(L1A(), L0C(), params);
}

// p: quantPre, nz2ndEn, clipReluPre.
KERNEL(copy_result) {
  Result(g);
  DataCopyCO12DstParams params(32, 32, 32, 32, static_cast<QuantMode_t>(p[0]), 0, false, p[1] != 0);
  params.clipReluPre = p[2];
  if (p[0] == QuantMode_t::NoQuant) {
    DataCopy(harness::Global<float>(g[2]), L0C(), params);
  } else {
    DataCopy(harness::Global<half>(g[2]), L0C().ReinterpretCast<int32_t>(), params);
  }
}
KERNEL(factors_in_l1) { SetFixPipeConfig(At<uint64_t>(TPosition::C1, 0, 1024)); }
// Rows of A that were not loaded have a result without a value. p: rows stored.
KERNEL(padding_rows) {
  DataCopy(L1A(), harness::Global<half>(g[0]), Nd2NzParams(1, 20, 32, 0, 32, 32, 1, 0));
  DataCopy(L1B(), harness::Global<half>(g[1]), Nd2NzParams(1, 32, 32, 0, 32, 32, 1, 0));
  Order<HardEvent::MTE2_MTE1>();
  Split();
  Order<HardEvent::MTE1_M>();
  Mmad(L0C(), L0A(), L0B(), MmadOf(32, 32, 32));
  Order<HardEvent::M_FIX>();
  FixpipeParamsV220 params(32, p[0], 32, 32, false);
  Fixpipe<float, float, CFG_ROW_MAJOR>(harness::Global<float>(g[2]), L0C(), params);
}

// p: byte of the table, elements.
KERNEL(bias_of) {
  auto l1 = At<float>(TPosition::C1, 0, 8192);
  Fill(l1, InitConstValueParams<float>(1, 64, 0, 1.0f));
  Order<HardEvent::MTE2_MTE1>();
  DataCopy(At<float>(TPosition::C2, 0, 1024)[static_cast<uint32_t>(p[0] / 4)], l1,
           static_cast<uint32_t>(p[1]));
}
// p: whether the table was filled, cmatrixInitVal, a wait for it, floats in it.
KERNEL(mmad_bias) {
  Operands(g);
  auto table = At<float>(TPosition::C2, 0, 1024);
  if (p[0]) {
    auto l1 = At<float>(TPosition::C1, 256 * 1024, 1024);
    Fill(l1, InitConstValueParams<float>(1, 32, 0, 1.0f));
    Order<HardEvent::MTE2_MTE1>();
    DataCopy(table, l1, p[3] > 0 ? static_cast<uint32_t>(p[3]) : 256);
  }
  if (p[2]) Order<HardEvent::MTE1_M>();
  Mmad(L0C(), L0A(), L0B(), table, MmadOf(32, 32, 32, 0, p[1] != 0));
  if (p[3] == 0) return;
  Order<HardEvent::M_FIX>();
  FixpipeParamsV220 params(p[4], 32, 32, 32, false);
  Fixpipe<float, float, CFG_ROW_MAJOR>(harness::Global<float>(g[2]), L0C(), params);
}
KERNEL(hf32) { SetHF32Mode(HF32Mode::ENABLE); }

// On a vector core.
KERNEL(vector_mmad) { Mmad(L0C(), L0A(), L0B(), MmadOf(16, 16, 16)); }
KERNEL(vector_nd2nz) { CopyIn(g); }
KERNEL(vector_load) { LoadData(L0A(), L1A(), LoadData2DParams(0, 1, 1, 0, 0, false, 0)); }
KERNEL(vector_fixpipe) { Store(g); }
KERNEL(vector_registers) { SetLoadDataPaddingValue(half(0)); }
