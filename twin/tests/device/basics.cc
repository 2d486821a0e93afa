// half and bfloat16_t, queues in every form, tiling data: correct programs.
#include "twin/tests/harness.h"

using namespace AscendC;

// Arithmetic of the two 16-bit types on whole arrays, outside any kernel.
extern "C" __attribute__((visibility("default"))) void half_to_float(const uint16_t* in, float* out,
                                                                     int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(half::FromBits(in[i]));
}
extern "C" __attribute__((visibility("default"))) void float_to_half(const float* in, uint16_t* out,
                                                                     int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = half(in[i]).bits;
}
extern "C" __attribute__((visibility("default"))) void float_to_bfloat16(const float* in,
                                                                         uint16_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = bfloat16_t(in[i]).bits;
}
extern "C" __attribute__((visibility("default"))) void bfloat16_to_float(const uint16_t* in,
                                                                         float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(bfloat16_t::FromBits(in[i]));
}
extern "C" __attribute__((visibility("default"))) void half_arithmetic(const uint16_t* a,
                                                                       const uint16_t* b,
                                                                       uint16_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const half x = half::FromBits(a[i]), y = half::FromBits(b[i]);
    half sum = x;
    sum += y;
    const half results[] = {sum, x - y, x * y, x / y, -x, half(x + 1), half(2 * y), half(x < y)};
    for (int k = 0; k < 8; ++k) out[8 * i + k] = results[k].bits;
  }
}
static_assert(std::is_same<decltype(half() + half()), half>::value, "half + half is half");
static_assert(std::is_same<decltype(half() + 1), half>::value, "half + int is half");
static_assert(std::is_same<decltype(half() * 1.0f), float>::value, "half * float is float");

namespace {

constexpr uint32_t kTile = 128;

// y = x + 1 in tiles, load, compute and store overlapping; p[0] tiles.
template <int32_t depth>
void DoubleBuffered(GM_ADDR* g, const int64_t* p) {
  TPipe pipe;
  TQue<TPosition::VECIN, depth> in;
  TQue<TPosition::VECOUT, depth> out;
  pipe.InitBuffer(in, 2, kTile * 4);
  pipe.InitBuffer(out, 2, kTile * 4);
  auto x = harness::Global<float>(g[0]), y = harness::Global<float>(g[1]);
  const auto tiles = static_cast<uint32_t>(p[0]);
  const auto load = [&](uint32_t i) {
    LocalTensor<float> t = in.template AllocTensor<float>();
    DataCopy(t, x[i * kTile], kTile);
    in.EnQue(t);
  };
  if (tiles > 0) load(0);
  for (uint32_t i = 0; i < tiles; ++i) {
    if (depth > 1 && i + 1 < tiles) load(i + 1);
    LocalTensor<float> t = in.template DeQue<float>();
    LocalTensor<float> r = out.template AllocTensor<float>();
    Adds(r, t, 1.0f, kTile);
    out.EnQue(r);
    in.FreeTensor(t);
    r = out.template DeQue<float>();
    DataCopy(y[i * kTile], r, kTile);
    out.FreeTensor(r);
    if (depth == 1 && i + 1 < tiles) load(i + 1);
  }
}

}  // namespace

KERNEL(queue_depth_1) { DoubleBuffered<1>(g, p); }
KERNEL(queue_depth_2) { DoubleBuffered<2>(g, p); }
KERNEL(queue_depth_4) { DoubleBuffered<4>(g, p); }

KERNEL(queue_depth_0) {  // the in-place form
  TPipe pipe;
  TQue<TPosition::VECIN, 0> in;
  TQue<TPosition::VECOUT, 0> out;
  pipe.InitBuffer(in, 2, kTile * 4);
  pipe.InitBuffer(out, 2, kTile * 4);
  auto x = harness::Global<float>(g[0]), y = harness::Global<float>(g[1]);
  LocalTensor<float> t, r;
  for (uint32_t i = 0; i < static_cast<uint32_t>(p[0]); ++i) {
    in.AllocTensor<float>(t);
    DataCopy(t, x[i * kTile], kTile);
    in.EnQue(t);
    in.DeQue<float>(t);
    out.AllocTensor<float>(r);
    Adds(r, t, 1.0f, kTile);
    in.FreeTensor(t);
    out.EnQue(r);
    out.DeQue<float>(r);
    DataCopy(y[i * kTile], r, kTile);
    out.FreeTensor(r);
  }
}

KERNEL(queue_user_positions) {  // one buffer: loaded, computed on, stored
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  pipe.InitBuffer(queue, 2, kTile * 4);
  auto x = harness::Global<float>(g[0]), y = harness::Global<float>(g[1]);
  for (uint32_t i = 0; i < static_cast<uint32_t>(p[0]); ++i) {
    LocalTensor<float> t = queue.AllocTensor<float>();
    DataCopy(t, x[i * kTile], kTile);
    queue.EnQue<TPosition::GM, TPosition::VECIN, float>(t);
    t = queue.DeQue<TPosition::GM, TPosition::VECIN, float>();
    Adds(t, t, 1.0f, kTile);
    queue.EnQue<TPosition::VECOUT, TPosition::GM, float>(t);
    t = queue.DeQue<TPosition::VECOUT, TPosition::GM, float>();
    DataCopy(y[i * kTile], t, kTile);
    queue.FreeTensor(t);
  }
}

KERNEL(queues_with_all_events) {  // four double-buffered queues take the ids 0 to 7
  TPipe pipe;
  TQue<TPosition::VECIN, 2> queues[4];
  TBuf<> sum;
  auto x = harness::Global<float>(g[0]), y = harness::Global<float>(g[1]);
  for (auto& queue : queues) pipe.InitBuffer(queue, 2, kTile * 4);
  pipe.InitBuffer(sum, kTile * 4);
  LocalTensor<float> total = sum.Get<float>();
  Duplicate(total, 0.0f, kTile);
  uint32_t tile = 0;
  for (auto& queue : queues) {
    for (int i = 0; i < 2; ++i) {
      LocalTensor<float> t = queue.AllocTensor<float>();
      DataCopy(t, x[tile++ * kTile], kTile);
      queue.EnQue(t);
    }
  }
  for (auto& queue : queues) {
    for (int i = 0; i < 2; ++i) {
      LocalTensor<float> t = queue.DeQue<float>();
      PipeBarrier<PIPE_V>();
      Add(total, total, t, kTile);
      queue.FreeTensor(t);
    }
  }
  SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
  DataCopy(y, total, kTile);
}

KERNEL(queue_answers) {  // what a queue says of itself; out: int32 [16]
  TPipe pipe;
  TQue<TPosition::VECIN, 2> queue;
  TBuf<> buf;
  pipe.InitBuffer(queue, 2, 100);
  pipe.InitBuffer(buf, 64);
  LocalTensor<int32_t> out = buf.Get<int32_t>();
  LocalTensor<half> a = queue.AllocTensor<half>();
  uint32_t i = 0;
  const auto say = [&](int64_t value) { out.SetValue(i++, static_cast<int32_t>(value)); };
  say(a.GetSize());
  say(queue.HasTensorInQue());
  say(queue.HasIdleBuffer());
  DataCopy(a, harness::Global<half>(g[0]), 64);
  queue.EnQue(a);
  say(queue.GetTensorCountInQue());
  say(queue.VacantInQue());
  LocalTensor<half> b = queue.AllocTensor<half>();
  say(queue.HasIdleBuffer());
  DataCopy(b, harness::Global<half>(g[0]), 64);
  queue.EnQue(b);
  say(queue.VacantInQue());
  say(static_cast<int>(queue.GetState(a)));
  a = queue.DeQue<half>();
  b = queue.DeQue<half>();
  say(static_cast<int>(queue.GetState(a)));
  queue.FreeTensor(a);
  queue.FreeTensor(b);
  say(static_cast<int>(queue.GetState(b)));
  say(a.GetPosition() == static_cast<int>(TPosition::VECIN));
  say(a[10].GetSize());
  say(a.ReinterpretCast<float>().GetSize());
  say(buf.GetWithOffset<float>(4, 32).GetSize());
  const TEventID one = pipe.AllocEventID<HardEvent::MTE2_V>(),
                 two = pipe.AllocEventID<HardEvent::MTE2_V>();
  say(one != two && pipe.FetchEventID(HardEvent::MTE2_V) != two);
  pipe.ReleaseEventID<HardEvent::MTE2_V>(one);
  pipe.ReleaseEventID<HardEvent::MTE2_V>(two);
  say(GetTPipePtr() == &pipe);
  SetFlag<HardEvent::S_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::S_MTE3>(EVENT_ID0);
  DataCopy(harness::Global<int32_t>(g[1]), out, 16);
}

// p: 0: elements of the tile, 1: first element of a view, 2: its elements. Out of a tile in UB:
// all, and the view a second time, reversed by the scalar unit and negated where it was.
template <typename T>
void ScalarUnit(GM_ADDR* g, const int64_t* p) {
  TPipe pipe;
  TBuf<TPosition::VECIN> buf;
  const uint32_t count = p[0], first = p[1], length = p[2];
  pipe.InitBuffer(buf, count * sizeof(T));
  GlobalTensor<T> x = harness::Global<T>(g[0]), y = harness::Global<T>(g[1]);
  LocalTensor<T> tile = buf.Get<T>();
  DataCopy(tile, x, count);
  harness::Order<HardEvent::MTE2_S>();
  LocalTensor<T> view = tile[first];
  view.SetSize(length);
  for (uint32_t i = 0; i < view.GetSize(); ++i) {
    y[count].SetValue(i, view.GetValue(length - 1 - i));
    y(count + length + i) = x[first].GetValue(i);
  }
  for (uint32_t i = 0; i < length; ++i) view(i) = static_cast<T>(-static_cast<float>(view(i)));
  harness::Order<HardEvent::S_MTE3>();
  DataCopy(y, tile, count);
}
KERNEL(scalar_float) { ScalarUnit<float>(g, p); }
KERNEL(scalar_half) { ScalarUnit<half>(g, p); }
KERNEL(scalar_int32) { ScalarUnit<int32_t>(g, p); }

// The bytes of a tile of To, taken as From from element p[1] on, copied out; p[0]: elements of
// From.
template <typename From, typename To>
void Reinterpret(GM_ADDR* g, const int64_t* p) {
  TPipe pipe;
  TBuf<TPosition::VECIN> buf;
  pipe.InitBuffer(buf, p[0] * sizeof(From));
  LocalTensor<From> tile = buf.Get<From>();
  DataCopy(tile, harness::Global<From>(g[0]), p[0]);
  harness::Order<HardEvent::MTE2_MTE3>();
  LocalTensor<To> other = tile[p[1]].template ReinterpretCast<To>();
  DataCopy(harness::Global<To>(g[1]), other, other.GetSize());
}
KERNEL(half_as_float) { Reinterpret<half, float>(g, p); }
KERNEL(float_as_half) { Reinterpret<float, half>(g, p); }
KERNEL(int8_as_int32) { Reinterpret<int8_t, int32_t>(g, p); }

KERNEL(phases) {  // Reset and a second TPipe give the same memory again
  auto x = harness::Global<float>(g[0]), y = harness::Global<float>(g[1]);
  for (uint32_t phase = 0; phase < 3; ++phase) {
    TPipe pipe;
    for (uint32_t part = 0; part < 2; ++part) {
      TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
      pipe.InitBuffer(queue, 1, 190 * 1024);
      LocalTensor<float> t = queue.AllocTensor<float>();
      DataCopy(t, x[(2 * phase + part) * kTile], kTile);
      queue.EnQue(t);
      t = queue.DeQue<float>();
      DataCopy(y[(2 * phase + part) * kTile], t, kTile);
      queue.FreeTensor(t);
      pipe.Reset();
    }
    pipe.Destroy();
  }
}

struct Shape {
  int64_t rows;
  float scale;
  int32_t flags[3];
};
using TwinDefaultTiling = Shape;  // what the registration of a tiling class leaves

namespace {

void Report(GM_ADDR out, int64_t rows, float scale, int64_t flag) {
  auto y = harness::Global<float>(out);
  y.SetValue(0, static_cast<float>(rows));
  y.SetValue(1, scale);
  y.SetValue(2, static_cast<float>(flag));
  DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE>(y);
}

}  // namespace

KERNEL(tiling_class) {
  GET_TILING_DATA(data, g[0]);
  Report(g[1], data.rows, data.scale, data.flags[2]);
}
struct Other {
  int64_t rows;
};
KERNEL(tiling_registered) {
  REGISTER_TILING_DEFAULT(Other);
  REGISTER_TILING_FOR_TILINGKEY("TILING_KEY_VAR == 4 || TILING_KEY_VAR > 100", Shape);
  if (TILING_KEY_IS(4)) {
    GET_TILING_DATA_WITH_STRUCT(Shape, data, g[0]);
    Report(g[1], data.rows, data.scale, data.flags[1]);
  } else if (TILING_KEY_IS(5)) {
    GET_TILING_DATA(data, g[0]);
    Report(g[1], data.rows, 0.0f, 0);
  }
}
KERNEL(tiling_member) {
  GET_TILING_DATA_MEMBER(Shape, scale, scale, g[0]);
  Report(g[1], 0, scale, 0);
}
KERNEL(workspaces) {
  Report(g[0], GetUserWorkspace(g[0]) == g[0], GetSysWorkSpacePtr() != nullptr, 0);
}
