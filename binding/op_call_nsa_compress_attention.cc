#include "binding/op_call.h"
#include "cpu/params.h"
#include "infer/nsa_compress_attention.h"

namespace nsa {

void call_nsa_compress_attention(const CheckedCall& call) {
  using namespace compress_attention;
  const Context& c = call.context;
  cpu::NsaCompressAttentionParams p{};
  p.query = call.data(kQuery);
  p.key = call.data(kKey);
  p.value = call.data(kValue);
  p.topk_mask = call.as<uint8_t>(kTopkMask);
  p.atten_mask = call.as<uint8_t>(kAttenMask);
  p.q_offset = call.list(kQOffset);
  p.seq_q = call.list(kSeqQ);
  p.seq_cmp_kv = call.list(kSeqCmpKv);
  p.B = call.list_length(kSeqQ);
  p.dtype = static_cast<cpu::ElemType>(call.inputs[kQuery].dtype);
  p.T1 = call.dim(kQuery, 0);
  p.N1 = call.dim(kQuery, 1);
  p.D = call.dim(kQuery, 2);
  p.T2 = call.dim(kKey, 0);
  p.N2 = call.dim(kKey, 1);
  p.Dv = call.dim(kValue, 2);
  if (call.has(kTopkMask)) p.topk_mask_cols = call.dim(kTopkMask, 1);
  if (call.has(kAttenMask)) p.atten_mask_cols = call.dim(kAttenMask, 1);
  p.compress_block_size = c.int_attr("compress_block_size");
  p.compress_stride = c.int_attr("compress_stride");
  p.select_block_size = c.int_attr("select_block_size");
  p.select_block_count = c.int_attr("select_block_count");
  p.init_blocks = c.int_attr("init_blocks");
  p.local_blocks = c.int_attr("local_blocks");
  p.scale = static_cast<float>(c.float_attr("scale_value"));
  p.causal = c.int_attr("causal") != 0;
  p.overlap = c.str_attr("importance") == "overlap";
  p.attention_out = call.out(0);
  p.topk_indices = call.out_as<int32_t>(1);
  p.softmax_max = call.out_as<float>(2);
  p.softmax_sum = call.out_as<float>(3);

  SeqList derived;
  if (p.seq_cmp_kv == nullptr) {
    derived = compressed_seq_len(*c.values(kSeqQ), p.compress_block_size, p.compress_stride);
    p.seq_cmp_kv = derived.data();
  }
  cpu::nsa_compress_attention(p);
}

}  // namespace nsa
