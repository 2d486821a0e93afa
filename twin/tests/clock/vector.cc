// Vector kernels whose modelled time is compared. Buffers: input, output.
#include "twin/tests/harness.h"

using namespace AscendC;
using harness::Order;

namespace {

LocalTensor<float> At(int64_t address, uint32_t count) {
  return LocalTensor<float>(TPosition::VECCALC, static_cast<uint32_t>(address), count);
}

}  // namespace

// One Add of `p[5]` repeats. p: addresses of src0, src1, dst, then src0's block and repeat strides.
KERNEL(add_at) {
  constexpr uint32_t count = 4096;
  auto src0 = At(p[0], count), src1 = At(p[1], count), dst = At(p[2], count);
  DataCopy(src0, harness::Global<float>(g[0]), count);
  DataCopy(src1, harness::Global<float>(g[0]), count);
  Order<HardEvent::MTE2_V>();
  const BinaryRepeatParams strides(1, static_cast<uint8_t>(p[3]), 1, 8, static_cast<uint8_t>(p[4]),
                                   8);
  Add(dst, src0, src1, 64, static_cast<uint8_t>(p[5]), strides);
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[1]), dst, count);
}

// 32 products of 256 floats, which do not depend on each other. p: 1 for a barrier after each.
KERNEL(products) {
  constexpr uint32_t count = 256;
  auto src = At(0, count);
  DataCopy(src, harness::Global<float>(g[0]), count);
  Order<HardEvent::MTE2_V>();
  for (int64_t i = 0; i < 32; ++i) {
    Muls(At(0x4000 + i * 1024, count), src, 2.0f, count);
    if (p[0] != 0) PipeBarrier<PIPE_V>();
  }
  PipeBarrier<PIPE_V>();
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[1]), At(0x4000, count), count);
}

// y = 2 x for p[1] tiles of 2048 floats on each core. p: buffers of each queue.
KERNEL(tiles) {
  constexpr uint32_t count = 2048;
  auto from = harness::Global<float>(g[0]), to = harness::Global<float>(g[1]);
  TPipe pipe;
  TQue<TPosition::VECIN, 2> in;
  TQue<TPosition::VECOUT, 2> out;
  pipe.InitBuffer(in, static_cast<uint8_t>(p[0]), count * 4);
  pipe.InitBuffer(out, static_cast<uint8_t>(p[0]), count * 4);
  const auto first = static_cast<uint32_t>(GetBlockIdx() * p[1]);
  for (uint32_t tile = first; tile < first + p[1]; ++tile) {
    auto x = in.AllocTensor<float>();
    DataCopy(x, from[tile * count], count);
    in.EnQue(x);
    x = in.DeQue<float>();
    auto y = out.AllocTensor<float>();
    Muls(y, x, 2.0f, count);
    in.FreeTensor(x);
    out.EnQue(y);
    y = out.DeQue<float>();
    DataCopy(to[tile * count], y, count);
    out.FreeTensor(y);
  }
}

// 4096 products with p[0] lanes of each repeat.
KERNEL(lanes) {
  constexpr uint32_t count = 4096;
  auto x = At(0, count), y = At(0x8000, count);
  DataCopy(x, harness::Global<float>(g[0]), count);
  Order<HardEvent::MTE2_V>();
  const auto used = static_cast<uint32_t>(p[0]);
  const auto step = static_cast<uint8_t>(used / 8);
  const uint32_t repeats = count / used;
  for (uint32_t done = 0; done < repeats; done += 64) {
    Muls(y[done * used], x[done * used], 2.0f, used, 64, {1, 1, step, step});
  }
  Order<HardEvent::V_MTE3>();
  DataCopy(harness::Global<float>(g[1]), y, count);
}
