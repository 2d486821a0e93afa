// A source as CANN's compiler sees it twice: the kind of core is a constant.
#pragma once

#include "twin/tests/device/kernels.h"

namespace kinds {
namespace {

using namespace device_test;

template <int32_t kind = g_coreType>
struct Half;

// The cube's part copies from GM by way of L1, which a vector core does not have.
template <>
struct Half<AIC> {
  template <typename Out>
  static void Run(GM_ADDR* g, const Out& out) {
    const LocalTensor<float> l1(TPosition::A1, 0, 64);
    DataCopy(l1, In(g), 64);
    Order<HardEvent::MTE2_MTE3>();
    DataCopy(out, l1, 64);
    CrossCoreSetFlag<2, PIPE_MTE3>(3);
  }
};
template <>
struct Half<AIV> {
  template <typename Out>
  static void Run(GM_ADDR*, const Out& out) {
    const LocalTensor<float> t(TPosition::VECCALC, 0, 64);
    CrossCoreWaitFlag(3);
    if (GetSubBlockIdx() != 0) return;
    DataCopy(t, out, 64);
    Order<HardEvent::MTE2_V>();
    Adds(t, t, 1.0f, 64);
    Order<HardEvent::V_MTE3>();
    DataCopy(out[64], t, 64);
  }
};

template <typename T>
void Both(GM_ADDR* g) {
  if ASCEND_IS_NOT_AIC {
    static_assert(sizeof(T) == 0 || g_coreType == AIV, "left out of the cube's half");
  }
  Half<>::Run(g, Out(g));
}

}  // namespace
}  // namespace kinds
