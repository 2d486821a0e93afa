#include "binding/op_call.h"
#include "cpu/nsa_compress_attention/params.h"
#include "infer/nsa_compress_attention.h"

namespace nsa {

namespace {

constexpr const NsaCompressAttentionInputs& kIn = kNsaCompressAttentionInputs;
constexpr const NsaCompressAttentionOutputs& kOut = kNsaCompressAttentionOutputs;

void run_kernel(const CheckedCall& call) {
  const Context& c = call.context;
  cpu::NsaCompressAttentionParams p{};
  call.set_attrs<NsaCompressAttentionAttrs>(p);
  p.query = call.data(kIn.query);
  p.key = call.data(kIn.key);
  p.value = call.data(kIn.value);
  p.topk_mask = call.as<uint8_t>(kIn.topk_mask);
  p.atten_mask = call.as<uint8_t>(kIn.atten_mask);
  p.q_offset = call.list(kIn.q_offset);
  p.seq_q = call.list(kIn.actual_seq_qlen);
  p.seq_cmp_kv = call.list(kIn.actual_cmp_seq_kvlen);
  p.B = call.list_length(kIn.actual_seq_qlen);
  p.dtype = elem_type(call.in(kIn.query).dtype);
  p.T1 = call.dim(kIn.query, 0);
  p.N1 = call.dim(kIn.query, 1);
  p.D = call.dim(kIn.query, 2);
  p.T2 = call.dim(kIn.key, 0);
  p.N2 = call.dim(kIn.key, 1);
  p.Dv = call.dim(kIn.value, 2);
  if (call.has(kIn.topk_mask)) p.topk_mask_cols = call.dim(kIn.topk_mask, 1);
  if (call.has(kIn.atten_mask)) p.atten_mask_cols = call.dim(kIn.atten_mask, 1);
  p.attention_out = call.out(kOut.attention_out);
  p.topk_indices = call.out_as<int32_t>(kOut.topk_indices);
  p.softmax_max = call.out_as<float>(kOut.softmax_max);
  p.softmax_sum = call.out_as<float>(kOut.softmax_sum);

  SeqList derived;
  if (p.seq_cmp_kv == nullptr) {
    derived = compressed_seq_len(*c.values(kIn.actual_seq_qlen), p.compress_block_size,
                                 p.compress_stride);
    p.seq_cmp_kv = derived.data();
  }
  cpu::nsa_compress_attention(p);
}

int64_t work(const CheckedCall& call) {
  return product({elements(call, kIn.query), call.dim(kIn.key, 0)});
}

}  // namespace

const CpuKernelEntry nsa_compress_attention_entry{run_kernel, work};

}  // namespace nsa
