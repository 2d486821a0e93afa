// DMA in every direction.
#include "tests/twin/harness.h"

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
