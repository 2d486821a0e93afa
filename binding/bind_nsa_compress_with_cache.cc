#include "binding/bind_rows.h"
#include "infer/nsa_compress_with_cache.h"

namespace nsa {

namespace {

constexpr const NsaCompressWithCacheInputs& kIn = kNsaCompressWithCacheInputs;
constexpr const NsaCompressWithCacheOutputs& kOut = kNsaCompressWithCacheOutputs;

CacheDims dims_of(const CheckedCall& call) {
  const bool paged = call.has(kIn.block_table);
  const size_t axis = paged ? 1 : 0;
  return {paged ? call.dim(kIn.input, 0) : 1, call.dim(kIn.input, axis),
          call.dim(kIn.input, axis + 1), call.dim(kIn.input, axis + 2)};
}

void check_contents(const CheckedCall& call) {
  check_pages(call, kIn.block_table, dims_of(call), list_values(call, kIn.actual_seq_len));
}

void run_kernel(const CheckedCall& call) {
  const auto& attrs = call.attrs<NsaCompressWithCacheAttrs>();
  const bool paged = call.has(kIn.block_table);
  const CacheDims dims = dims_of(call);
  cpu::NsaCompressWithCacheParams p{};
  p.input = cache_view(call, kIn.input, kIn.block_table, dims, CacheLayout::kBSND);
  p.weight = call.data(kIn.weight);
  p.cache = call.in(kIn.cache).data;
  p.rows = call.out(kOut.rows);
  p.slot = call.list(kIn.slot_mapping);
  p.seq_len = call.list(kIn.actual_seq_len);
  p.dtype = elem_type(call.in(kIn.input).dtype);
  p.B = call.list_length(kIn.actual_seq_len);
  p.N = dims.heads;
  p.D = dims.dim;
  p.block_size = attrs.compress_block_size;
  p.stride = attrs.compress_stride;
  p.packed = !paged;
  cpu::nsa_compress_with_cache(p);
}

int64_t work(const CheckedCall& call) {
  return product(
      {elements(call, kIn.weight), call.dim(kIn.cache, 2), call.list_length(kIn.actual_seq_len)});
}

}  // namespace

const CpuKernelEntry nsa_compress_with_cache_entry{run_kernel, work, nullptr, check_contents};

}  // namespace nsa
