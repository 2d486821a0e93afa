#include "binding/bind_rows.h"
#include "infer/nsa_compress_with_cache.h"

namespace nsa {

namespace {

constexpr const NsaCompressWithCacheInputs& kIn = kNsaCompressWithCacheInputs;

CacheDims dims_of(const CheckedCall& call) {
  const bool paged = call.has(kIn.block_table);
  return {paged ? call.dim(kIn.input, 0) : 1, call.dim(kIn.input, paged ? 1 : 0),
          call.dim_from_end(kIn.input, 2), call.dim_from_end(kIn.input, 1)};
}

}  // namespace

void check_nsa_compress_with_cache(const CheckedCall& call) {
  check_pages(call, kIn.block_table, dims_of(call), *call.context.values(kIn.actual_seq_len));
}

void run_nsa_compress_with_cache(const CheckedCall& call) {
  cpu::NsaCompressWithCacheParams p{};
  fill_nsa_compress_with_cache(call, p);
  p.input = cache_view(call, kIn.input, kIn.block_table, dims_of(call), CacheLayout::kBSND);
  p.packed = !call.has(kIn.block_table);
  cpu::nsa_compress_with_cache(p);
}

}  // namespace nsa
