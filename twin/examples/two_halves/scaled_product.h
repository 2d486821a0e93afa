// C = alpha A B, written in the layers of a template library: tiles, blocks, a kernel. The cube
// core of a block multiplies a tile of rows of A with B, its two vector cores scale half of them
// each.
#pragma once

// Tensors without a shape of their own take less room on the device's stack.
#ifndef K_MAX_SHAPE_DIM
#define K_MAX_SHAPE_DIM 0
#endif

#include "kernel_operator.h"

namespace tiles {

using AscendC::GlobalTensor;
using AscendC::HardEvent;
using AscendC::LocalTensor;
using AscendC::TPosition;

template <uint32_t kM, uint32_t kN, uint32_t kK>
struct Shape {
  static constexpr uint32_t M = kM;
  static constexpr uint32_t N = kN;
  static constexpr uint32_t K = kK;
};

// One pipe waits for another.
template <HardEvent event>
__aicore__ inline void Order() {
  AscendC::SetFlag<event>(EVENT_ID0);
  AscendC::WaitFlag<event>(EVENT_ID0);
}

// Tiles: rows of GM to fractals of L1, and from there to the cube's own memories.
template <typename Element>
struct TileCopyToL1 {
  __aicore__ inline void operator()(const LocalTensor<Element>& to,
                                    const GlobalTensor<Element>& from, uint32_t rows,
                                    uint32_t columns) const {
    AscendC::DataCopy(to, from, AscendC::Nd2NzParams(1, rows, columns, 0, columns, rows, 1, 0));
  }
};

template <typename Element, bool transposed>
struct TileCopyToL0 {
  static constexpr uint32_t kFractal = 16 * 16;

  __aicore__ inline void operator()(const LocalTensor<Element>& to,
                                    const LocalTensor<Element>& from, uint32_t rows,
                                    uint32_t columns) const {
    for (uint32_t i = 0; i < rows / 16; ++i) {
      AscendC::LoadData(to[i * (columns / 16) * kFractal], from[i * kFractal],
                        AscendC::LoadData2DParams(0, columns / 16, rows / 16, 0, 0, transposed, 0));
    }
  }
};

// Blocks: what one core does with a tile.
template <class TileShape, typename Element>
class BlockMmad {
 public:
  __aicore__ inline void operator()(const GlobalTensor<float>& c, const GlobalTensor<Element>& a,
                                    const GlobalTensor<Element>& b) const {
    constexpr uint32_t m = TileShape::M, n = TileShape::N, k = TileShape::K;
    const LocalTensor<Element> l1_a(TPosition::A1, 0, m * k);
    const LocalTensor<Element> l1_b(TPosition::B1, m * k * sizeof(Element), k * n);
    TileCopyToL1<Element>()(l1_a, a, m, k);
    TileCopyToL1<Element>()(l1_b, b, k, n);
    Order<HardEvent::MTE2_MTE1>();

    const LocalTensor<Element> l0_a(TPosition::A2, 0, m * k), l0_b(TPosition::B2, 0, k * n);
    TileCopyToL0<Element, false>()(l0_a, l1_a, m, k);
    TileCopyToL0<Element, true>()(l0_b, l1_b, k, n);
    Order<HardEvent::MTE1_M>();

    const LocalTensor<float> l0_c(TPosition::CO1, 0, m * n);
    AscendC::MmadParams params;
    params.m = m;
    params.n = n;
    params.k = k;
    params.cmatrixInitVal = true;
    AscendC::Mmad(l0_c, l0_a, l0_b, params);
    Order<HardEvent::M_FIX>();
    AscendC::Fixpipe<float, float, AscendC::CFG_ROW_MAJOR>(
        c, l0_c, AscendC::FixpipeParamsV220(n, m, m, n, false));
  }
};

template <class TileShape>
class BlockScale {
 public:
  __aicore__ inline void operator()(const GlobalTensor<float>& c, float alpha) const {
    constexpr uint32_t count = TileShape::M / 2 * TileShape::N;
    const LocalTensor<float> rows(TPosition::VECCALC, 0, count);
    AscendC::DataCopy(rows, c, count);
    Order<HardEvent::MTE2_V>();
    AscendC::Muls(rows, rows, alpha, static_cast<int32_t>(count));
    Order<HardEvent::V_MTE3>();
    AscendC::DataCopy(c, rows, count);
  }
};

// The kernel: its half for this kind of core.
template <class TileShape, typename Element>
class ScaledProduct {
 public:
  struct Params {
    GM_ADDR a;
    GM_ADDR b;
    GM_ADDR c;
    float alpha;
  };

  __aicore__ inline void operator()(const Params& params) const {
    constexpr uint32_t m = TileShape::M, n = TileShape::N, k = TileShape::K;
    constexpr uint16_t product_ready = 0;
    GlobalTensor<Element> a, b;
    GlobalTensor<float> c;
    c.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(params.c));
    if constexpr (g_coreType == AscendC::AIC) {
      a.SetGlobalBuffer(reinterpret_cast<__gm__ Element*>(params.a));
      b.SetGlobalBuffer(reinterpret_cast<__gm__ Element*>(params.b));
      const uint64_t block = AscendC::GetBlockIdx();
      BlockMmad<TileShape, Element>()(c[block * m * n], a[block * m * k], b);
      AscendC::CrossCoreSetFlag<2, PIPE_FIX>(product_ready);
    } else {
      AscendC::CrossCoreWaitFlag(product_ready);
      BlockScale<TileShape>()(c[AscendC::GetBlockIdx() * (m / 2 * n)], params.alpha);
    }
  }
};

}  // namespace tiles
