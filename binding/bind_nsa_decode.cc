#include "binding/bind_rows.h"
#include "infer/nsa_decode.h"

namespace nsa {

namespace {

constexpr const NsaDecodeInputs& kIn = kNsaDecodeInputs;

CacheDims dims_of(const CheckedCall& call, size_t cache) {
  return check_cache(call.context, cache, call.attrs<NsaDecodeAttrs>().cache_layout, kUnknownDim);
}

}  // namespace

void check_nsa_decode(const CheckedCall& call) {
  const auto& attrs = call.attrs<NsaDecodeAttrs>();
  const SeqList& lengths = *call.context.values(kIn.actual_seq_kvlen);
  SeqList windows;
  windows.reserve(lengths.size());
  for (int64_t n : lengths)
    windows.push_back(complete_windows(n, attrs.compress_block_size, attrs.compress_stride));
  check_pages(call, kIn.cmp_block_table, dims_of(call, kIn.key_cmp), windows);
  check_pages(call, kIn.block_table, dims_of(call, kIn.key_slc), lengths);
}

void run_nsa_decode(const CheckedCall& call) {
  const CacheLayout layout = call.attrs<NsaDecodeAttrs>().cache_layout;
  const size_t keys[] = {kIn.key_cmp, kIn.key_slc, kIn.key_win};
  const size_t values[] = {kIn.value_cmp, kIn.value_slc, kIn.value_win};
  const std::optional<size_t> tables[] = {kIn.cmp_block_table, kIn.block_table, std::nullopt};
  cpu::NsaDecodeParams p{};
  fill_nsa_decode(call, p);
  for (int b = 0; b < cpu::kBranches; ++b) {
    p.key[b] = cache_view(call, keys[b], tables[b], dims_of(call, keys[b]), layout);
    p.value[b] = cache_view(call, values[b], tables[b], dims_of(call, values[b]), layout);
    p.key[b].ring = p.value[b].ring = b == cpu::kWindow;
  }
  SeqList counts;
  fill_rows(call, kIn.actual_seq_qlen, dims_of(call, kIn.value_win), counts, p);
  cpu::nsa_decode(p);
}

}  // namespace nsa
