#include "cpu/linear/nsa_linear.h"

#include "cpu/dispatch/kernel_table.h"
#include "cpu/engine/threads/team.h"

namespace nsa::cpu {

void nsa_linear(const NsaLinearParams& p) {
  const KernelTable& table = kernels();
  parallel_region(num_threads(), [&](const Member& member) {
    member.static_for(ceil_div(p.N, kLinearRows),
                      [&](int64_t n) { table.linear_rows(p, n * kLinearRows); });
  });
}

}  // namespace nsa::cpu
