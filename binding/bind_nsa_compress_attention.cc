#include "binding/generated/by_hand.h"
#include "cpu/nsa_compress_attention/params.h"
#include "infer/nsa_compress_attention.h"

namespace nsa {

void run_nsa_compress_attention(const CheckedCall& call) {
  cpu::NsaCompressAttentionParams p{};
  fill_nsa_compress_attention(call, p);
  SeqList derived;
  if (p.seq_cmp_kv == nullptr) {
    derived = compressed_seq_len(*call.context.values(kNsaCompressAttentionInputs.actual_seq_qlen),
                                 p.compress_block_size, p.compress_stride);
    p.seq_cmp_kv = derived.data();
  }
  cpu::nsa_compress_attention(p);
}

}  // namespace nsa
