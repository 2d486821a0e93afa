#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/threads/scratch.h"
#include "cpu/nsa_decode/params.h"

namespace nsa::cpu {

// A token fills one window of a row in `stride` steps: too little work for a team of threads.
void nsa_compress_with_cache(const NsaCompressWithCacheParams& p) {
  float* window = nullptr;
  const Scratch scratch(
      [&](Arena& arena) { window = arena.take<float>((p.block_size + 1) * round_up(p.D, 16)); });
  kernels().compress_last_windows(p, window);
}

}  // namespace nsa::cpu
