// A product of which a part of A or of B holds no value. Buffers: A [16, 32], B [32, 32] of half, a
// float result [16, 32].
#include "twin/tests/harness.h"

using namespace AscendC;
using harness::Order;

namespace {

template <typename T>
LocalTensor<T> At(TPosition position, uint32_t bytes) {
  return LocalTensor<T>(position, 0, bytes / sizeof(T));
}

// Two blocks of 16 columns, of the second only the first `rows` rows.
void Load(const LocalTensor<half>& to, GM_ADDR from, int64_t height, int64_t rows) {
  const auto matrix = harness::Global<half>(from);
  DataCopy(to, matrix, Nd2NzParams(1, height, 16, 0, 32, height, 1, 0));
  DataCopy(to[static_cast<uint32_t>(height * 16)], matrix[16],
           Nd2NzParams(1, rows, 16, 0, 32, height, 1, 0));
}

}  // namespace

// p: rows of A that have their second half of K, rows of B that have their second half of N, rows
// and columns of C that are stored, products that are added up: the last has all of A and B.
KERNEL(product) {
  const auto a1 = At<half>(TPosition::A1, 4096);
  const auto b1 = LocalTensor<half>(TPosition::B1, 4096, 2048);
  const auto a2 = At<half>(TPosition::A2, 4096), b2 = At<half>(TPosition::B2, 4096);
  const auto c = At<float>(TPosition::CO1, 4096);
  for (int64_t i = 0; i < p[4]; ++i) {
    const bool whole = i > 0;
    Load(a1, g[0], 16, whole ? 16 : p[0]);
    Load(b1, g[1], 32, whole ? 32 : p[1]);
    Order<HardEvent::MTE2_MTE1>();
    LoadData3DParamsV2<half> params;
    params.l1H = 1;
    params.l1W = params.mExtension = 16;
    params.channelSize = params.kExtension = 32;
    LoadData(a2, a1, params);
    params.l1W = params.mExtension = 32;
    LoadData(b2, b1, params);
    Order<HardEvent::MTE1_M>();
    Mmad(c, a2, b2, MmadParams(16, 32, 32, 0, false, !whole));
    PipeBarrier<PIPE_M>();
    Order<HardEvent::M_MTE1>();
    Order<HardEvent::MTE1_MTE2>();
  }
  Order<HardEvent::M_FIX>();
  FixpipeParamsV220 params(p[3], p[2], 16, 32, false);
  Fixpipe<float, float, CFG_ROW_MAJOR>(harness::Global<float>(g[2]), c, params);
}
