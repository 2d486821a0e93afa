#include <optional>

#include "binding/bind_rows.h"
#include "infer/nsa_decode.h"

namespace nsa {

namespace {

constexpr const NsaDecodeInputs& kIn = kNsaDecodeInputs;
constexpr const NsaDecodeOutputs& kOut = kNsaDecodeOutputs;

void check_contents(const CheckedCall& call) {
  const Context& c = call.context;
  const auto& attrs = call.attrs<NsaDecodeAttrs>();
  const CacheLayout layout = attrs.cache_layout;
  const std::vector<int64_t> lengths = list_values(call, kIn.actual_seq_kvlen);
  std::vector<int64_t> windows;
  windows.reserve(lengths.size());
  for (int64_t n : lengths)
    windows.push_back(complete_windows(n, attrs.compress_block_size, attrs.compress_stride));
  check_pages(call, kIn.cmp_block_table, check_cache(c, kIn.key_cmp, layout, kUnknownDim), windows);
  check_pages(call, kIn.block_table, check_cache(c, kIn.key_slc, layout, kUnknownDim), lengths);
}

void run_kernel(const CheckedCall& call) {
  const Context& c = call.context;
  const auto& attrs = call.attrs<NsaDecodeAttrs>();
  const CacheLayout layout = attrs.cache_layout;
  const size_t keys[] = {kIn.key_cmp, kIn.key_slc, kIn.key_win};
  const size_t values[] = {kIn.value_cmp, kIn.value_slc, kIn.value_win};
  const std::optional<size_t> tables[] = {kIn.cmp_block_table, kIn.block_table, std::nullopt};
  cpu::NsaDecodeParams p{};
  p.rule = attrs;
  std::vector<int64_t> counts;
  CacheDims value{};
  for (int b = 0; b < cpu::kBranches; ++b) {
    const CacheDims key = check_cache(c, keys[b], layout, kUnknownDim);
    value = check_cache(c, values[b], layout, kUnknownDim);
    p.key[b] = cache_view(call, keys[b], tables[b], key, layout);
    p.value[b] = cache_view(call, values[b], tables[b], value, layout);
    p.key[b].ring = p.value[b].ring = b == cpu::kWindow;
  }
  fill_rows(call, kIn.query, kIn.actual_seq_qlen, kIn.actual_seq_kvlen, attrs.layout, value, counts,
            p);
  p.scale = attrs.scale_value;
  p.gates = call.as<float>(kIn.gates);
  p.kv_len = call.list(kIn.actual_seq_kvlen);
  p.window_size = attrs.window_size;
  p.attention_out = call.out(kOut.attention_out);
  cpu::nsa_decode(p);
}

int64_t work(const CheckedCall& call) {
  const auto& attrs = call.attrs<NsaDecodeAttrs>();
  return product({elements(call, kIn.query), attrs.select_block_size, attrs.select_block_count});
}

uint32_t float32_inputs(const BoundAttrs&) { return input_bit(kIn.gates); }

}  // namespace

const CpuKernelEntry nsa_decode_entry{run_kernel, work, float32_inputs, check_contents};

}  // namespace nsa
