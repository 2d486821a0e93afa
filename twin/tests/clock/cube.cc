// Cube kernels whose modelled time is compared. Buffers: inputs, output.
#include "twin/tests/cube/kernels.h"

using namespace cube_test;

// p[3] products [m, k] x [k, n] summed in L0C.
KERNEL(mmads) {
  const int64_t m = p[0], n = p[1], k = p[2];
  auto a = At<half>(TPosition::A2, 0, m * k * 2);
  auto b = At<half>(TPosition::B2, 0, k * n * 2);
  auto c = At<float>(TPosition::CO1, 0, m * n * 4);
  LoadFractals(a, g[0], m * k * 2);
  LoadFractals(b, g[1], k * n * 2);
  Order<HardEvent::MTE2_M>();
  MmadParams params;
  params.m = m;
  params.n = n;
  params.k = k;
  for (int64_t i = 0; i < p[3]; ++i) {
    params.cmatrixInitVal = i == 0;
    Mmad(c, a, b, params);
  }
}
