// The four stages of flash attention on a tile of 128 queries and 256 keys with heads of 128, each
// repeated p[0] times: QK and PV on an AIC, softmax and the update of O on an AIV with half of the
// queries. Buffers: inputs, output.
#include "twin/tests/cube/kernels.h"

using namespace cube_test;

namespace {

constexpr uint32_t kSide = 128;
constexpr uint32_t kHalfTile = kSide * kSide * 2;  // bytes of 128 x 128 halfs
constexpr uint32_t kFloatTile = kSide * kSide * 4;
constexpr uint32_t kFractals = kSide / 16;

void LoadNz(const LocalTensor<half>& to, const GlobalTensor<half>& from) {
  DataCopy(to, from, Nd2NzParams(1, kSide, kSide, 0, kSide, kSide, 1, 0));
}

// NZ in L1 to A's order, a stripe of 16 rows at a time.
void LoadA(const LocalTensor<half>& to, const LocalTensor<half>& from) {
  for (uint32_t stripe = 0; stripe < kFractals; ++stripe) {
    LoadData2DParams params;
    params.startIndex = stripe;
    params.repeatTimes = kFractals;
    params.srcStride = kFractals;
    LoadData(to[stripe * kFractals * 256], from, params);
  }
}

void Product(const LocalTensor<float>& c, const LocalTensor<half>& a, const LocalTensor<half>& b,
             bool first, bool last) {
  MmadParams params;
  params.m = params.n = params.k = kSide;
  params.cmatrixInitVal = first;
  params.unitFlag = last ? 3 : 2;
  Mmad(c, a, b, params);
}

void StoreTile(const GlobalTensor<float>& to, const LocalTensor<float>& from, uint32_t pitch) {
  FixpipeParamsV220 params;
  params.nSize = params.mSize = params.srcStride = kSide;
  params.dstStride = pitch;
  params.unitFlag = 3;
  Fixpipe<float, float, CFG_ROW_MAJOR>(to, from, params);
}

// Slots of L1, L0A and L0B that are free.
void Free(bool wait) {
  for (int slot = 0; slot < 2; ++slot) {
    if (wait) {
      WaitFlag<HardEvent::MTE1_MTE2>(slot);
      WaitFlag<HardEvent::M_MTE1>(3 + slot);
    } else {
      SetFlag<HardEvent::MTE1_MTE2>(slot);
      SetFlag<HardEvent::M_MTE1>(3 + slot);
    }
  }
}

constexpr uint32_t kRows = 64, kColumns = 256;
constexpr uint32_t kScores = kRows * kColumns;

LocalTensor<float> Ub(uint32_t address, uint32_t count) {
  return LocalTensor<float>(TPosition::VECCALC, address, count);
}
constexpr uint32_t kPartAt = 160 * 1024, kStatsAt = 176 * 1024;

// One value for each row, of all columns: 64 at a time, then blocks of 8.
template <typename Pair, typename Reduce>
void OfRows(const LocalTensor<float>& to, const LocalTensor<float>& scores, Pair pair,
            Reduce reduce) {
  auto part = Ub(kPartAt, kRows * 64);
  for (uint32_t at = 64; at < kColumns; at += 64) {
    const BinaryRepeatParams strides(1, 1, 1, 8, at == 64 ? 32 : 8, 32);
    pair(part, at == 64 ? scores : part, scores[at], strides);
    PipeBarrier<PIPE_V>();
  }
  reduce(part, part, kRows);
  PipeBarrier<PIPE_V>();
  reduce(to, part, kRows / 8);
  PipeBarrier<PIPE_V>();
}

void Softmax(const LocalTensor<float>& scores, const LocalTensor<half>& p) {
  auto now = Ub(kStatsAt, 64), most = Ub(kStatsAt + 256, 64), sum = Ub(kStatsAt + 512, 64),
       old = Ub(kStatsAt + 768, 64), blocks = Ub(kStatsAt + 1024, 512);
  OfRows(
      now, scores,
      [](auto d, auto a, auto b, const BinaryRepeatParams& s) { Max(d, a, b, 64, kRows, s); },
      [](auto d, auto s, int n) { BlockReduceMax(d, s, n, 64, 1, 1, 8); });
  Max(now, now, most, 64);
  PipeBarrier<PIPE_V>();
  Sub(old, most, now, 64);
  Brcb(blocks, now, 8, {1, 8});
  PipeBarrier<PIPE_V>();
  Muls(old, old, 0.0883f, 64);
  Muls(most, now, 1.0f, 64);
  for (uint32_t at = 0; at < kColumns; at += 64) {
    Sub(scores[at], scores[at], blocks, 64, kRows, {1, 1, 0, 32, 32, 1});
  }
  PipeBarrier<PIPE_V>();
  Muls(scores, scores, 0.0883f, kScores);
  Exp(old, old, 64);
  PipeBarrier<PIPE_V>();
  Exp(scores, scores, kScores);
  Mul(sum, sum, old, 64);
  PipeBarrier<PIPE_V>();
  OfRows(
      now, scores,
      [](auto d, auto a, auto b, const BinaryRepeatParams& s) { Add(d, a, b, 64, kRows, s); },
      [](auto d, auto s, int n) { BlockReduceSum(d, s, n, 64, 1, 1, 8); });
  Add(sum, sum, now, 64);
  // In place: a half never overtakes the floats that are still to be read.
  Cast(p, scores, RoundMode::CAST_ROUND, kScores);
  PipeBarrier<PIPE_V>();
}

}  // namespace

KERNEL(qk) {
  auto q = At<half>(TPosition::A1, 4 * kHalfTile, kHalfTile);
  auto l0a = At<half>(TPosition::A2, 0, kHalfTile);
  LoadNz(q, harness::Global<half>(g[0]));
  Order<HardEvent::MTE2_MTE1>();
  LoadA(l0a, q);
  Free(false);
  for (uint32_t i = 0; i < 2 * p[0]; ++i) {
    const uint32_t slot = i % 2;
    auto l1 = At<half>(TPosition::A1, slot * kHalfTile, kHalfTile);
    auto l0b = At<half>(TPosition::B2, slot * kHalfTile, kHalfTile);
    auto l0c = At<float>(TPosition::CO1, slot * kFloatTile, kFloatTile);
    WaitFlag<HardEvent::MTE1_MTE2>(slot);
    LoadNz(l1, harness::Global<half>(g[1])[slot * kSide * kSide]);
    Order<HardEvent::MTE2_MTE1>(slot);
    WaitFlag<HardEvent::M_MTE1>(3 + slot);
    LoadData2DParams params;
    params.repeatTimes = kFractals * kFractals;
    params.srcStride = 1;
    LoadData(l0b, l1, params);
    SetFlag<HardEvent::MTE1_MTE2>(slot);
    Order<HardEvent::MTE1_M>(slot);
    Product(l0c, l0a, l0b, true, true);
    SetFlag<HardEvent::M_MTE1>(3 + slot);
    StoreTile(harness::Global<float>(g[2])[slot * kSide], l0c, 2 * kSide);
  }
  Free(true);
}

KERNEL(pv) {
  Free(false);
  for (uint32_t i = 0; i < 2 * p[0]; ++i) {
    const uint32_t slot = i % 2;
    auto l1_p = At<half>(TPosition::A1, slot * kHalfTile, kHalfTile);
    auto l1_v = At<half>(TPosition::A1, (2 + slot) * kHalfTile, kHalfTile);
    auto l0a = At<half>(TPosition::A2, slot * kHalfTile, kHalfTile);
    auto l0b = At<half>(TPosition::B2, slot * kHalfTile, kHalfTile);
    auto l0c = At<float>(TPosition::CO1, i / 2 % 2 * kFloatTile, kFloatTile);
    WaitFlag<HardEvent::MTE1_MTE2>(slot);
    DataCopy(l1_p, harness::Global<half>(g[0])[slot * kSide * kSide], kSide * kSide);
    LoadNz(l1_v, harness::Global<half>(g[1])[slot * kSide * kSide]);
    Order<HardEvent::MTE2_MTE1>(slot);
    WaitFlag<HardEvent::M_MTE1>(3 + slot);
    LoadA(l0a, l1_p);
    for (uint32_t keys = 0; keys < kFractals; ++keys) {
      LoadData2DParams params;
      params.startIndex = keys;
      params.repeatTimes = kFractals;
      params.srcStride = kFractals;
      params.ifTranspose = true;
      LoadData(l0b[keys * kFractals * 256], l1_v, params);
    }
    SetFlag<HardEvent::MTE1_MTE2>(slot);
    Order<HardEvent::MTE1_M>(slot);
    Product(l0c, l0a, l0b, slot == 0, slot == 1);
    SetFlag<HardEvent::M_MTE1>(3 + slot);
    if (slot == 1) StoreTile(harness::Global<float>(g[2]), l0c, kSide);
  }
  Free(true);
}

KERNEL(softmax) {
  Duplicate(Ub(kStatsAt, 1024), 0.0f, 1024);
  PipeBarrier<PIPE_V>();
  for (int slot = 0; slot < 2; ++slot) SetFlag<HardEvent::MTE3_MTE2>(slot);
  for (uint32_t i = 0; i < p[0]; ++i) {
    const uint32_t slot = i % 2;
    auto scores = Ub(slot * kScores * 4, kScores);
    auto weights = scores.ReinterpretCast<half>();
    WaitFlag<HardEvent::MTE3_MTE2>(slot);
    DataCopy(scores, harness::Global<float>(g[0]), kScores);
    Order<HardEvent::MTE2_V>(slot);
    Softmax(scores, weights);
    Order<HardEvent::V_MTE3>();
    DataCopy(harness::Global<half>(g[1]), weights, kScores);
    PipeBarrier<PIPE_MTE3>();
    SetFlag<HardEvent::MTE3_MTE2>(slot);
  }
  for (int slot = 0; slot < 2; ++slot) WaitFlag<HardEvent::MTE3_MTE2>(slot);
}

KERNEL(update) {
  constexpr uint32_t count = kRows * kSide;
  auto o = Ub(0, count), more = Ub(0x10100, count), scale = Ub(kStatsAt, 64),
       blocks = Ub(kStatsAt + 1024, 512);
  Duplicate(o, 0.0f, count);
  Duplicate(scale, 0.5f, 64);
  PipeBarrier<PIPE_V>();
  for (uint32_t i = 0; i < p[0]; ++i) {
    Order<HardEvent::V_MTE2>();
    DataCopy(more, harness::Global<float>(g[0]), count);
    Brcb(blocks, scale, 8, {1, 8});
    PipeBarrier<PIPE_V>();
    for (uint32_t at = 0; at < kSide; at += 64) {
      Mul(o[at], o[at], blocks, 64, kRows, {1, 1, 0, 16, 16, 1});
    }
    PipeBarrier<PIPE_V>();
    Order<HardEvent::MTE2_V>();
    Add(o, o, more, count);
    PipeBarrier<PIPE_V>();
  }
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[1]), o, count);
}
