// DMA in every direction.
#include "twin/tests/harness.h"

using namespace AscendC;

namespace {

// Both directions through one queue.
template <typename T>
void CopyThrough(GM_ADDR* g, const int64_t* p) {
  TPipe pipe;
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 2> queue;
  const auto tile = static_cast<uint32_t>(p[0]);
  pipe.InitBuffer(queue, 2, tile * sizeof(T));
  auto in = harness::Global<T>(g[0]), out = harness::Global<T>(g[1]);
  for (int64_t i = GetBlockIdx(); i < p[1]; i += GetBlockNum()) {
    LocalTensor<T> t = queue.AllocTensor<T>();
    DataCopy(t, in[i * tile], tile);
    queue.EnQue(t);
    t = queue.DeQue<T>();
    DataCopy(out[i * tile], t, tile);
    queue.FreeTensor(t);
  }
}

}  // namespace

KERNEL(through_float) { CopyThrough<float>(g, p); }
KERNEL(through_half) { CopyThrough<half>(g, p); }
KERNEL(through_int8) { CopyThrough<int8_t>(g, p); }
KERNEL(through_int64) { CopyThrough<int64_t>(g, p); }

namespace {

// The whole of UB that the test looks at: p[0] elements, first filled with p[1].
template <typename T>
struct Window {
  explicit Window(const int64_t* p) {
    pipe.InitBuffer(buf, static_cast<uint32_t>(p[0] * sizeof(T)));
    t = buf.Get<T>();
    for (int64_t i = 0; i < p[0]; ++i) t.SetValue(static_cast<uint32_t>(i), static_cast<T>(p[1]));
    PipeBarrier<PIPE_ALL>();
  }
  void Store(GM_ADDR out) {
    PipeBarrier<PIPE_ALL>();
    DataCopy(harness::Global<T>(out), t, t.GetSize());
  }
  TPipe pipe;
  TBuf<TPosition::VECCALC> buf;
  LocalTensor<T> t;
};

DataCopyParams Params(const int64_t* p) {
  return DataCopyParams(static_cast<uint16_t>(p[0]), static_cast<uint16_t>(p[1]),
                        static_cast<uint16_t>(p[2]), static_cast<uint16_t>(p[3]));
}
DataCopyExtParams ExtParams(const int64_t* p) {
  return DataCopyExtParams(static_cast<uint16_t>(p[0]), static_cast<uint32_t>(p[1]),
                           static_cast<uint32_t>(p[2]), static_cast<uint32_t>(p[3]), 0);
}

template <typename T>
void BlocksIn(GM_ADDR* g, const int64_t* p) {
  Window<T> window(p);
  DataCopy(window.t[static_cast<uint32_t>(p[2])], harness::Global<T>(g[0]), Params(p + 3));
  window.Store(g[1]);
}
// The window is written by the scalar unit, then rows of it go out.
template <typename T>
void BlocksOut(GM_ADDR* g, const int64_t* p) {
  TPipe pipe;
  TBuf<TPosition::VECOUT> buf;
  pipe.InitBuffer(buf, static_cast<uint32_t>(p[0] * sizeof(T)));
  DataCopy(buf.Get<T>(), harness::Global<T>(g[0]), static_cast<uint32_t>(p[0]));
  PipeBarrier<PIPE_ALL>();
  DataCopy(harness::Global<T>(g[1]), buf.Get<T>()[static_cast<uint32_t>(p[2])], Params(p + 3));
}
template <typename T>
void BlocksInside(GM_ADDR* g, const int64_t* p) {
  Window<T> window(p);
  TBuf<TPosition::VECIN> source;
  window.pipe.InitBuffer(source, static_cast<uint32_t>(p[0] * sizeof(T)));
  DataCopy(source.Get<T>(), harness::Global<T>(g[0]), static_cast<uint32_t>(p[0]));
  PipeBarrier<PIPE_ALL>();
  DataCopy(window.t[static_cast<uint32_t>(p[2])], source.Get<T>(), Params(p + 3));
  window.Store(g[1]);
}
// p[7]: isPad, leftPadding, rightPadding, paddingValue; p[11]: whether SetPadValue is called with
// it.
template <typename T>
void PadIn(GM_ADDR* g, const int64_t* p) {
  Window<T> window(p);
  if (p[11] != 0) SetPadValue(static_cast<T>(p[10]));
  const DataCopyPadExtParams<T> pad(p[7] != 0, static_cast<uint8_t>(p[8]),
                                    static_cast<uint8_t>(p[9]), static_cast<T>(p[10]));
  DataCopyPad(window.t[static_cast<uint32_t>(p[2])], harness::Global<T>(g[0]), ExtParams(p + 3),
              pad);
  window.Store(g[1]);
}
template <typename T>
void PadOut(GM_ADDR* g, const int64_t* p) {
  TPipe pipe;
  TBuf<TPosition::VECOUT> buf;
  pipe.InitBuffer(buf, static_cast<uint32_t>(p[0] * sizeof(T)));
  DataCopy(buf.Get<T>(), harness::Global<T>(g[0]), static_cast<uint32_t>(p[0]));
  PipeBarrier<PIPE_ALL>();
  DataCopyPad(harness::Global<T>(g[1]), buf.Get<T>()[static_cast<uint32_t>(p[2])],
              ExtParams(p + 3));
}

}  // namespace

// p: elements of the window, their first value, offset in it, the four parameters of the copy.
#define COPIES(name, T)                            \
  KERNEL(in_##name) { BlocksIn<T>(g, p); }         \
  KERNEL(out_##name) { BlocksOut<T>(g, p); }       \
  KERNEL(inside_##name) { BlocksInside<T>(g, p); } \
  KERNEL(pad_in_##name) { PadIn<T>(g, p); }        \
  KERNEL(pad_out_##name) { PadOut<T>(g, p); }
COPIES(float, float)
COPIES(half, half)
COPIES(int8, int8_t)
COPIES(int64, int64_t)

// GM to L1 and back on a cube core. p[0]: elements.
KERNEL(through_l1) {
  TPipe pipe;
  TQueBind<TPosition::GM, TPosition::A1, 1> queue;
  const auto count = static_cast<uint32_t>(p[0]);
  pipe.InitBuffer(queue, 1, count * 4);
  LocalTensor<float> t = queue.AllocTensor<float>();
  DataCopy(t, harness::Global<float>(g[0]), count);
  SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
  WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
  DataCopy(harness::Global<float>(g[1]), t, count);
  SetFlag<HardEvent::MTE3_MTE1>(EVENT_ID0);
  WaitFlag<HardEvent::MTE3_MTE1>(EVENT_ID0);
  queue.FreeTensor(t);
}
