// The device's test kernels share these buffers: input, output, workspace and one with zeros.
#pragma once

#include "twin/tests/harness.h"

namespace device_test {

using namespace AscendC;
using harness::Order;

inline GlobalTensor<float> In(GM_ADDR* g) { return harness::Global<float>(g[0]); }
inline GlobalTensor<float> Out(GM_ADDR* g) { return harness::Global<float>(g[1]); }
inline GlobalTensor<float> Work(GM_ADDR* g) { return harness::Global<float>(g[2]); }
inline GlobalTensor<float> Zeros(GM_ADDR* g) { return harness::Global<float>(g[3]); }

// A TPipe with one buffer of 1024 bytes.
struct Place {
  Place() { pipe.InitBuffer(buf, 1024); }
  LocalTensor<float> Get() { return buf.Get<float>(); }
  TPipe pipe;
  TBuf<TPosition::VECCALC> buf;
};

// Ones in UB, ready for MTE3.
inline void Ones(Place& place) {
  Duplicate(place.Get(), 1.0f, 64);
  Order<HardEvent::V_MTE3>();
}

}  // namespace device_test
