#include "binding/bind_rows.h"
#include "cpu/lightning_indexer/params.h"

namespace nsa {

void run_lightning_indexer(const CheckedCall& call) {
  cpu::LightningIndexerParams p{};
  fill_lightning_indexer(call, p);
  constexpr const LightningIndexerInputs& in = kLightningIndexerInputs;
  check_pages(call, in.block_table, call.dim(in.key, 0), p.page, p.seq_k, p.B);
  cpu::lightning_indexer(p);
}

}  // namespace nsa
