#include "cpu/nsa_linear.h"

#include "cpu/kernel_table.h"
#include "cpu/runtime.h"

namespace nsa::cpu {

void nsa_linear(const NsaLinearParams& p) {
  const KernelTable& table = kernels();
#pragma omp parallel for schedule(static) num_threads(num_threads())
  for (int64_t row = 0; row < p.N; row += kLinearRows) table.linear_rows(p, row);
}

}  // namespace nsa::cpu
