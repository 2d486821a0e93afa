// Whole kernels: a tiled product, and a chain AIC - AIV - AIC through the workspace.
#include "twin/tests/cube/kernels.h"

using namespace cube_test;

namespace {

constexpr int64_t kTile = 64;  // rows, columns and K of a tile
constexpr uint32_t kL1Slot = 64 * 1024;
constexpr uint32_t kL0Slot = 32 * 1024;
constexpr uint32_t kL0cSlot = 64 * 1024;

int64_t CeilTo(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

// C = A * B by tiles. L1, L0A, L0B and L0C each have two slots.
class TiledProduct {
 public:
  TiledProduct(TPipe* pipe, bool unit_flag) : unit_flag_(unit_flag) {
    pipe->InitBuffer(l1_a_, 2 * kL1Slot);
    pipe->InitBuffer(l1_b_, 2 * kL1Slot);
    pipe->InitBuffer(l0a_, 2 * kL0Slot);
    pipe->InitBuffer(l0b_, 2 * kL0Slot);
    pipe->InitBuffer(l0c_, 2 * kL0cSlot);
    for (int slot = 0; slot < 2; ++slot) {
      SetFlag<HardEvent::MTE1_MTE2>(slot);
      SetFlag<HardEvent::M_MTE1>(3 + slot);
      if (!unit_flag_) SetFlag<HardEvent::FIX_M>(slot);
    }
  }
  void Finish() {
    for (int slot = 0; slot < 2; ++slot) {
      WaitFlag<HardEvent::MTE1_MTE2>(slot);
      WaitFlag<HardEvent::M_MTE1>(3 + slot);
      if (!unit_flag_) WaitFlag<HardEvent::FIX_M>(slot);
    }
  }

  // One tile of C, m x n, written to `c` with rows `c_pitch` elements apart.
  template <typename C>
  void Tile(GlobalTensor<C> c, int64_t c_pitch, GlobalTensor<half> a, int64_t a_pitch,
            GlobalTensor<half> b, int64_t b_pitch, int64_t m, int64_t n, int64_t k) {
    auto l0c = l0c_.GetWithOffset<float>(kL0cSlot / 4, static_cast<uint32_t>(tile_ % 2) * kL0cSlot);
    const int out = static_cast<int>(tile_++ % 2);
    if (!unit_flag_) WaitFlag<HardEvent::FIX_M>(out);
    for (int64_t at = 0; at < k; at += kTile) {
      const int64_t here = Least(kTile, k - at);
      Step(l0c, a[at], a_pitch, b[at * b_pitch], b_pitch, m, n, here, at == 0, at + here == k);
    }
    if (!unit_flag_) Order<HardEvent::M_FIX>();
    FixpipeParamsV220 params;
    params.nSize = n;
    params.mSize = m;
    params.srcStride = CeilTo(m, 16);
    params.dstStride = static_cast<uint32_t>(c_pitch);
    params.unitFlag = unit_flag_ ? 3 : 0;
    params.quantPre = std::is_same<C, half>::value ? QuantMode_t::F322F16 : QuantMode_t::NoQuant;
    Fixpipe<C, float, CFG_ROW_MAJOR>(c, l0c, params);
    if (!unit_flag_) SetFlag<HardEvent::FIX_M>(out);
  }

 private:
  void Step(LocalTensor<float> c, GlobalTensor<half> a, int64_t a_pitch, GlobalTensor<half> b,
            int64_t b_pitch, int64_t m, int64_t n, int64_t k, bool first, bool last) {
    const int slot = static_cast<int>(step_++ % 2);
    auto l1_a = l1_a_.GetWithOffset<half>(kL1Slot / 2, static_cast<uint32_t>(slot) * kL1Slot);
    auto l1_b = l1_b_.GetWithOffset<half>(kL1Slot / 2, static_cast<uint32_t>(slot) * kL1Slot);
    WaitFlag<HardEvent::MTE1_MTE2>(slot);
    DataCopy(l1_a, a, Nd2NzParams(1, m, k, 0, a_pitch, CeilTo(m, 16), 1, 0));
    DataCopy(l1_b, b, Nd2NzParams(1, k, n, 0, b_pitch, CeilTo(k, 16), 1, 0));
    SetFlag<HardEvent::MTE2_MTE1>(slot);

    auto l0a = l0a_.GetWithOffset<half>(kL0Slot / 2, static_cast<uint32_t>(slot) * kL0Slot);
    auto l0b = l0b_.GetWithOffset<half>(kL0Slot / 2, static_cast<uint32_t>(slot) * kL0Slot);
    WaitFlag<HardEvent::MTE2_MTE1>(slot);
    WaitFlag<HardEvent::M_MTE1>(3 + slot);
    LoadA(l0a, l1_a, m, k);
    LoadB(l0b, l1_b, k, n);
    SetFlag<HardEvent::MTE1_MTE2>(slot);
    SetFlag<HardEvent::MTE1_M>(slot);

    WaitFlag<HardEvent::MTE1_M>(slot);
    MmadParams params;
    params.m = m == 1 ? 2 : m;  // one row would be read as a vector
    params.n = n;
    params.k = k;
    params.cmatrixInitVal = first;
    params.unitFlag = unit_flag_ ? (last ? 3 : 2) : 0;
    Mmad(c, l0a, l0b, params);
    if (params.m / 16 * (params.n / 16) < 10) PipeBarrier<PIPE_M>();
    SetFlag<HardEvent::M_MTE1>(3 + slot);
  }

  // NZ to ZZ in one instruction.
  void LoadA(LocalTensor<half> to, LocalTensor<half> from, int64_t m, int64_t k) {
    LoadData3DParamsV2<half> params;
    params.l1H = 1;
    params.l1W = CeilTo(m, 16);
    params.channelSize = CeilTo(k, 16);
    params.mExtension = CeilTo(m, 16);
    params.kExtension = CeilTo(k, 16);
    LoadData(to, from, params);
  }
  // NZ to ZN, a row of fractals at a time.
  void LoadB(LocalTensor<half> to, LocalTensor<half> from, int64_t k, int64_t n) {
    const int64_t k1 = CeilTo(k, 16) / 16, n1 = CeilTo(n, 16) / 16;
    for (int64_t i = 0; i < k1; ++i) {
      LoadData(to[static_cast<uint32_t>(i * n1 * 256)], from[static_cast<uint32_t>(i * 256)],
               LoadData2DParams(0, n1, k1, 0, 0, true, 0));
    }
  }

  bool unit_flag_;
  int64_t tile_ = 0;
  int64_t step_ = 0;
  TBuf<TPosition::A1> l1_a_;
  TBuf<TPosition::B1> l1_b_;
  TBuf<TPosition::A2> l0a_;
  TBuf<TPosition::B2> l0b_;
  TBuf<TPosition::CO1> l0c_;
};

// p: M, N, K, whether with the unit flag.
template <typename C>
void Product(GM_ADDR* g, const int64_t* p) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
  const int64_t m = p[0], n = p[1], k = p[2];
  TPipe pipe;
  TiledProduct product(&pipe, p[3] != 0);
  const int64_t tiles_n = CeilTo(n, kTile) / kTile, tiles = CeilTo(m, kTile) / kTile * tiles_n;
  for (int64_t i = GetBlockIdx(); i < tiles; i += GetBlockNum()) {
    const int64_t row = i / tiles_n * kTile, column = i % tiles_n * kTile;
    product.Tile(harness::Global<C>(g[2])[row * n + column], n,
                 harness::Global<half>(g[0])[row * k], k, harness::Global<half>(g[1])[column], n,
                 Least(kTile, m - row), Least(kTile, n - column), k);
  }
  product.Finish();
}

constexpr uint16_t kScoresReady = 0, kProbabilitiesReady = 1;
constexpr int64_t kRows = 32, kDepth = 48;

// P = half(2 * S) for this core's half of the rows.
void Double(GM_ADDR scores, GM_ADDR probabilities, int64_t rounds) {
  constexpr int64_t count = kRows * kRows / 2;
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in;
  TQue<TPosition::VECOUT, 2> out;
  pipe.InitBuffer(in, 2, count * sizeof(float));
  pipe.InitBuffer(out, 2, count * sizeof(half));
  for (int64_t round = 0; round < rounds; ++round) {
    CrossCoreWaitFlag(kScoresReady);
    const int64_t at = round % 2 * kRows * kRows + GetSubBlockIdx() * count;
    auto s = in.AllocTensor<float>();
    DataCopy(s, harness::Global<float>(scores)[at], count);
    in.EnQue(s);
    s = in.DeQue<float>();
    Muls(s, s, 2.0f, count);
    PipeBarrier<PIPE_V>();
    auto q = out.AllocTensor<half>();
    Cast(q, s, RoundMode::CAST_RINT, count);
    out.EnQue(q);
    in.FreeTensor(s);
    q = out.DeQue<half>();
    DataCopy(harness::Global<half>(probabilities)[at], q, count);
    out.FreeTensor(q);
    CrossCoreSetFlag<2, PIPE_MTE3>(kProbabilitiesReady);
  }
}

}  // namespace

KERNEL(product_float) { Product<float>(g, p); }
KERNEL(product_half) { Product<half>(g, p); }

// For each round r of a block: O = half(2 * Q[r] * K) * V. Buffers Q, K, V, O, workspace; p: rounds
// of a block, whether the AIC leaves out its wait.
KERNEL(chain) {
  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
  const int64_t block = ASCEND_IS_AIC ? GetBlockIdx() : GetBlockIdx() / 2;
  constexpr int64_t slots = 2 * kRows * kRows;
  GM_ADDR scores = g[4] + block * slots * 6;
  GM_ADDR probabilities = scores + slots * 4;
  if (ASCEND_IS_AIV) {
    Double(scores, probabilities, p[0]);
    return;
  }
  TPipe pipe;
  TiledProduct product(&pipe, false);
  for (int64_t round = 0; round < p[0]; ++round) {
    const int64_t item = block * p[0] + round, slot = round % 2 * kRows * kRows;
    product.Tile(harness::Global<float>(scores)[slot], kRows,
                 harness::Global<half>(g[0])[item * kRows * kDepth], kDepth,
                 harness::Global<half>(g[1]), kRows, kRows, kRows, kDepth);
    CrossCoreSetFlag<2, PIPE_FIX>(kScoresReady);
    if (p[1] == 0) CrossCoreWaitFlag(kProbabilitiesReady);
    product.Tile(harness::Global<float>(g[3])[item * kRows * kDepth], kDepth,
                 harness::Global<half>(probabilities)[slot], kRows, harness::Global<half>(g[2]),
                 kDepth, kRows, kDepth, kRows);
  }
  product.Finish();
}
