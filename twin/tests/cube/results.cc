// Mmad and Fixpipe. Buffers: A as L0A holds it, B as L0B holds it, bias, result[, factors].
#include "twin/tests/cube/kernels.h"

using namespace cube_test;

namespace {

// Numbers of a test of Mmad.
struct MmadNumbers {
  int64_t a_bytes, b_bytes, c_bytes, m, n, k, k_align, start, rounds;
};
// `start`: 0 zero, 1 the bias tensor, 2 the start of the bias table, 3 isBias after a first round.
MmadNumbers Numbers(const int64_t* p) {
  return {p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8]};
}

// C of `rounds` Mmads, the first from the start asked for, the others on top.
template <typename C, typename T>
LocalTensor<C> Multiply(GM_ADDR* g, const MmadNumbers& q) {
  auto a = At<T>(TPosition::A2, 0, 64 * 1024);
  auto b = At<T>(TPosition::B2, 0, 64 * 1024);
  auto c = At<C>(TPosition::CO1, 0, 128 * 1024);
  auto table = At<C>(TPosition::C2, 0, 1024);
  LoadFractals(a, g[0], q.a_bytes);
  LoadFractals(b, g[1], q.b_bytes);
  Order<HardEvent::MTE2_M>();
  if (q.start == 1 || q.start == 2) {
    auto l1 = At<C>(TPosition::C1, 0, 1024);
    DataCopy(l1, harness::Global<C>(g[2]), 256);
    Order<HardEvent::MTE2_MTE1>();
    DataCopy(table, l1, 256);
    Order<HardEvent::MTE1_M>();
  }
  MmadParams params;
  params.m = q.m;
  params.n = q.n;
  params.k = q.k;
  params.kDirectionAlign = q.k_align != 0;
  for (int64_t round = 0; round < q.rounds; ++round) {
    params.cmatrixInitVal = round == 0 && q.start != 1 && q.start != 2;
    params.cmatrixSource = round == 0 && q.start == 2;
    params.isBias = false;
    if (round > 0 && q.start == 3) params.isBias = params.cmatrixInitVal = true;
    if (round > 0) PipeBarrier<PIPE_M>();
    if constexpr (!std::is_same<T, AscendC::int4b_t>::value) {
      if (round == 0 && q.start == 1) {
        Mmad(c, a, b, table, params);
        continue;
      }
    }
    Mmad(c, a, b, params);
  }
  return c;
}

template <typename C, typename T>
void ShowMmad(GM_ADDR* g, const int64_t* p) {
  const MmadNumbers q = Numbers(p);
  Poison(At<C>(TPosition::CO1, 0, 128 * 1024), static_cast<uint64_t>(q.c_bytes));
  auto c = Multiply<C, T>(g, q);
  Dump(g[3], c, static_cast<uint64_t>(q.c_bytes));
}

// p[16...]: nSize, mSize, srcStride, dstStride, quantPre, reluEn, ndNum, srcNdStride, dstNdStride,
// isChannelSplit, deqScalar, atomic.
FixpipeParamsV220 FixpipeNumbers(const int64_t* p) {
  FixpipeParamsV220 params;
  params.nSize = p[16];
  params.mSize = p[17];
  params.srcStride = p[18];
  params.dstStride = static_cast<uint32_t>(p[19]);
  params.quantPre = static_cast<QuantMode_t>(p[20]);
  params.reluEn = p[21] != 0;
  params.ndNum = p[22];
  params.srcNdStride = p[23];
  params.dstNdStride = p[24];
  params.isChannelSplit = p[25] != 0;
  params.deqScalar = static_cast<uint64_t>(p[26]);
  return params;
}

template <typename D, typename C, typename T, const FixpipeConfig& config>
void ToGm(GM_ADDR* g, const int64_t* p) {
  auto c = Multiply<C, T>(g, Numbers(p));
  Order<HardEvent::M_FIX>();
  if (p[27]) SetAtomicAdd<D>();
  Fixpipe<D, C, config>(harness::Global<D>(g[3]), c, FixpipeNumbers(p));
  if (p[27]) SetAtomicNone();
}

// Stores C by the older parameters, whose strides are gaps; p[29] says whether in ND.
template <typename D, typename C, typename T>
void ToGmInBursts(GM_ADDR* g, const int64_t* p) {
  auto c = Multiply<C, T>(g, Numbers(p));
  Order<HardEvent::M_FIX>();
  FixpipeParams<C> params((p[16] + 15) / 16, 2 * p[17], 0, static_cast<uint32_t>(p[19]));
  if (p[29] != 0) {
    params.nz2ndParams = Nz2NdParams(true, p[22], p[23], p[24], p[16]);
  } else {
    params.dstStride -= p[17] * sizeof(D) / 2;
  }
  params.quantParams = QuantParams(static_cast<QuantMode_t>(p[20]));
  params.reluEn = p[21] != 0;
  Fixpipe(harness::Global<D>(g[3]), c, params);
}

template <const FixpipeConfig& config>
void ToGmByFactors(GM_ADDR* g, const int64_t* p) {
  auto c = Multiply<int32_t, int8_t>(g, Numbers(p));
  auto factors = At<uint64_t>(TPosition::C1, 4096, 4096);
  DataCopy(factors, harness::Global<uint64_t>(g[4]), static_cast<uint32_t>(p[16] + 3) / 4 * 4);
  Order<HardEvent::MTE2_FIX>();
  Order<HardEvent::M_FIX>();
  Fixpipe<half, int32_t, config>(harness::Global<half>(g[3]), c, factors, FixpipeNumbers(p));
}

// p[28]: bytes of L1 to show.
template <typename D, typename C, typename T>
void ToL1(GM_ADDR* g, const int64_t* p) {
  auto c = Multiply<C, T>(g, Numbers(p));
  auto l1 = At<D>(TPosition::A1, 8192, 256 * 1024);
  Poison(l1, static_cast<uint64_t>(p[28]));
  Order<HardEvent::M_FIX>();
  Fixpipe<D, C, CFG_NZ>(l1, c, FixpipeNumbers(p));
  Dump(g[3], l1, static_cast<uint64_t>(p[28]));
}

// ToGm by the registers; buffer 4 holds factors, p[29] whether in ND.
template <typename D, typename C, typename T>
void CopyToGm(GM_ADDR* g, const int64_t* p) {
  auto c = Multiply<C, T>(g, Numbers(p));
  DataCopyCO12DstParams params(p[16], p[17], static_cast<uint32_t>(p[19]), p[18],
                               static_cast<QuantMode_t>(p[20]), p[21], p[25] != 0, p[29] != 0);
  auto table = At<uint64_t>(TPosition::C2PIPE2GM, 0, 2048);
  if (params.quantPre == QuantMode_t::VDEQF16) {
    auto factors = At<uint64_t>(TPosition::C1, 4096, 4096);
    DataCopy(factors, harness::Global<uint64_t>(g[4]), 32);
    Order<HardEvent::MTE2_FIX>();
    DataCopy(table, factors, DataCopyParams(1, 2, 0, 0));
    SetFixPipeConfig(table);
    PipeBarrier<PIPE_FIX>();
  }
  SetFixpipePreQuantFlag(static_cast<uint64_t>(p[26]));
  SetFixpipeNz2ndFlag(p[22], p[23], p[24]);
  Order<HardEvent::M_FIX>();
  DataCopy(harness::Global<D>(g[3]), c, params);
}

}  // namespace

KERNEL(mmad_half) { ShowMmad<float, half>(g, p); }
KERNEL(mmad_bfloat16) { ShowMmad<float, bfloat16_t>(g, p); }
KERNEL(mmad_float) { ShowMmad<float, float>(g, p); }
KERNEL(mmad_int8) { ShowMmad<int32_t, int8_t>(g, p); }
// With infinities and NaN kept; saturation is the mode after a reset.
#define KEPT(name)                                   \
  KERNEL(name##_kept) {                              \
    SetSaturationFlag<SaturationMode::FLOAT>(false); \
    harness::Kernels().at(#name)(g, p);              \
  }
KEPT(mmad_half)
KEPT(mmad_bfloat16)
KEPT(mmad_float)
KERNEL(nd_float) { ToGm<float, float, half, CFG_ROW_MAJOR>(g, p); }
KERNEL(nd_half) { ToGm<half, float, float, CFG_ROW_MAJOR>(g, p); }
KERNEL(nd_bfloat16) { ToGm<bfloat16_t, float, float, CFG_ROW_MAJOR>(g, p); }
KERNEL(nd_int32) { ToGm<int32_t, int32_t, int8_t, CFG_ROW_MAJOR>(g, p); }
KERNEL(nd_dequant) { ToGm<half, int32_t, int8_t, CFG_ROW_MAJOR>(g, p); }
KERNEL(nd_dequant_columns) { ToGmByFactors<CFG_ROW_MAJOR>(g, p); }
KERNEL(bursts_float) { ToGmInBursts<float, float, half>(g, p); }
KERNEL(bursts_half) { ToGmInBursts<half, float, half>(g, p); }
KERNEL(nz_float) { ToGm<float, float, float, CFG_NZ>(g, p); }
KERNEL(nz_half) { ToGm<half, float, half, CFG_NZ>(g, p); }
KERNEL(copy_float) { CopyToGm<float, float, half>(g, p); }
KERNEL(copy_half) { CopyToGm<half, float, half>(g, p); }
KERNEL(copy_dequant) { CopyToGm<half, int32_t, int8_t>(g, p); }
KERNEL(l1_half) { ToL1<half, float, half>(g, p); }
KERNEL(l1_bfloat16) { ToL1<bfloat16_t, float, float>(g, p); }
KERNEL(l1_dequant) { ToL1<half, int32_t, int8_t>(g, p); }
KEPT(nd_half)
KEPT(nd_bfloat16)
KEPT(l1_half)
