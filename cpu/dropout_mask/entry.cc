// Bits of a dropout mask from a counter-based generator (Philox 4x32-10): bit n depends on the seed
// and on n alone, so any division of the work gives the same mask.
#include <cmath>

#include "cpu/dropout_mask/params.h"
#include "cpu/engine/threads/team.h"
#include "cpu/types.h"

namespace nsa::cpu {
namespace {

struct Words {
  uint32_t w[4];
};

Words philox(uint64_t counter, uint64_t key) {
  Words x{{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * x.w[0], b = uint64_t{0xCD9E8D57u} * x.w[2];
    x = {{static_cast<uint32_t>(b >> 32) ^ x.w[1] ^ k0, static_cast<uint32_t>(b),
          static_cast<uint32_t>(a >> 32) ^ x.w[3] ^ k1, static_cast<uint32_t>(a)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return x;
}

}  // namespace

void dropout_mask(const DropoutMaskParams& p) {
  const uint64_t threshold =
      static_cast<uint64_t>(std::ceil(std::ldexp(double{static_cast<float>(p.keep_prob)}, 32)));
  const int64_t bytes = ceil_div(p.numel, 8);
  const auto draw = [&](int64_t n) {
    unsigned byte = 0;
    for (int64_t e = 8 * n; e < min64(8 * n + 8, p.numel); e += 4) {
      const Words words = philox(static_cast<uint64_t>(e) / 4, p.seed);
      for (int64_t lane = 0; lane < min64(4, p.numel - e); ++lane)
        byte |= unsigned{words.w[lane] < threshold} << (e - 8 * n + lane);
    }
    p.mask[n] = static_cast<uint8_t>(byte);
  };
  parallel_region(num_threads(), [&](const Member& member) { member.static_for(bytes, draw); });
}

}  // namespace nsa::cpu
