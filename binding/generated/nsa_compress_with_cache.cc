// How the CPU's kernels of NsaCompressWithCache are called.
// Written by tools/generate_bindings.py: change it there, then run `make generate`.
#include "infer/nsa_compress_with_cache.h"

#include "binding/generated/by_hand.h"
#include "binding/op_call.h"
#include "cpu/nsa_decode/params.h"

namespace nsa {

namespace {

int64_t work_of_nsa_compress_with_cache(const CheckedCall& call) {
  constexpr const NsaCompressWithCacheInputs& in = kNsaCompressWithCacheInputs;
  return product(
      {elements(call, in.weight), call.dim(in.cache, 2), call.list_length(in.actual_seq_len)});
}

}  // namespace

void fill_nsa_compress_with_cache(const CheckedCall& call, cpu::NsaCompressWithCacheParams& p) {
  constexpr const NsaCompressWithCacheInputs& in = kNsaCompressWithCacheInputs;
  constexpr const NsaCompressWithCacheOutputs& out = kNsaCompressWithCacheOutputs;
  const auto& attrs = call.attrs<NsaCompressWithCacheAttrs>();
  p.weight = call.data(in.weight);
  p.cache = call.in(in.cache).data;
  p.rows = call.out(out.rows);
  p.slot = call.list(in.slot_mapping);
  p.seq_len = call.list(in.actual_seq_len);
  p.dtype = elem_type(call.in(in.input).dtype);
  p.B = call.list_length(in.actual_seq_len);
  p.N = call.dim(in.cache, 1);
  p.D = call.dim(in.cache, 2);
  p.block_size = attrs.compress_block_size;
  p.stride = attrs.compress_stride;
}

const CpuKernelEntry nsa_compress_with_cache_entry{run_nsa_compress_with_cache,
                                                   work_of_nsa_compress_with_cache, nullptr,
                                                   check_nsa_compress_with_cache};

}  // namespace nsa
