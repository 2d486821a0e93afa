// Rules of NsaSelectedAttention and NsaSelectedAttentionGrad.
#include "infer/attention.h"

namespace nsa {

namespace {

// Where the operator and its gradient have the inputs they share.
struct SharedInputs {
  AttentionOperands operands;
  size_t topk, seq_q, seq_kv, q_offset;
};

AttentionDims check_shared(const Context& c, const SharedInputs& in) {
  const AttentionDims dims = check_attention_operands(c, in.operands);
  c.require_int("select_block_size", 1);
  c.require_int("select_block_count", 1);
  c.limit(Quantity::kSelectBlockSize, c.int_attr("select_block_size"));
  c.limit(Quantity::kSelectBlockCount, c.int_attr("select_block_count"));
  c.require_dtype(in.topk, dtype_set(DType::kInt32));
  c.require_shape(in.topk, "(T1, N2, select_block_count)",
                  {dims.t1, dims.n2, c.int_attr("select_block_count")});
  c.require_list(in.seq_q);
  c.require_list(in.seq_kv);
  c.require_same_length(in.seq_kv, in.seq_q);
  c.require_prefix_sums(in.seq_q, "T1", dims.t1, ListEnd::kExact);
  c.require_prefix_sums(in.seq_kv, "T2", dims.t2, ListEnd::kExact);
  for (size_t list : {in.seq_q, in.seq_kv}) {
    if (c.values(list) != nullptr) c.limit(Quantity::kSegment, longest_segment(*c.values(list)));
  }
  c.require_query_offset(in.q_offset, in.seq_q);
  return dims;
}

enum Forward : size_t { kQuery, kKey, kValue, kTopkIndices, kSeqQ, kSeqKv, kQOffset };

std::vector<OutputDesc> infer_forward(const Context& c) {
  const AttentionDims dims =
      check_shared(c, {{kQuery, kKey, kValue}, kTopkIndices, kSeqQ, kSeqKv, kQOffset});
  return {{c.dtype(kQuery), {dims.t1, dims.n1, dims.dv}},
          {DType::kFloat32, {dims.t1, dims.n1, kSoftmaxLanes}},
          {DType::kFloat32, {dims.t1, dims.n1, kSoftmaxLanes}}};
}

enum Backward : size_t {
  kGradQuery,
  kGradKey,
  kGradValue,
  kAttentionOut,
  kAttentionOutGrad,
  kSoftmaxMax,
  kSoftmaxSum,
  kGradTopkIndices,
  kGradSeqQ,
  kGradSeqKv,
  kGradQOffset,
};

std::vector<OutputDesc> infer_backward(const Context& c) {
  const AttentionDims dims = check_shared(
      c,
      {{kGradQuery, kGradKey, kGradValue}, kGradTopkIndices, kGradSeqQ, kGradSeqKv, kGradQOffset});
  for (size_t input : {kAttentionOut, kAttentionOutGrad}) {
    c.require_float(input);
    c.require_same_dtype(input, kGradQuery);
    c.require_shape(input, "(T1, N1, Dv)", {dims.t1, dims.n1, dims.dv});
  }
  for (size_t input : {kSoftmaxMax, kSoftmaxSum}) {
    c.require_dtype(input, dtype_set(DType::kFloat32));
    c.require_shape(input, "(T1, N1, 8)", {dims.t1, dims.n1, kSoftmaxLanes});
  }
  const DType dtype = c.dtype(kGradQuery);
  return {{dtype, {dims.t1, dims.n1, dims.d}},
          {dtype, {dims.t2, dims.n2, dims.d}},
          {dtype, {dims.t2, dims.n2, dims.dv}}};
}

std::vector<AttrSpec> attr_specs() {
  return {{"scale_value", AttrType::kFloat, true, {}},
          {"head_num", AttrType::kInt, true, {}},
          {"select_block_size", AttrType::kInt, true, {}},
          {"select_block_count", AttrType::kInt, true, {}},
          {"causal", AttrType::kInt, false, int64_t{0}, true}};
}

}  // namespace

const OpRules& nsa_selected_attention_rules() {
  static const OpRules rules{{OpId::kNsaSelectedAttention,
                              "NsaSelectedAttention",
                              "nsa_selected_attention",
                              {{"query"},
                               {"key"},
                               {"value"},
                               {"topk_indices"},
                               {"actual_seq_qlen", false, true},
                               {"actual_seq_kvlen", false, true},
                               {"q_offset", true, true}},
                              attr_specs(),
                              {"attention_out", "softmax_max", "softmax_sum"}},
                             infer_forward};
  return rules;
}

const OpRules& nsa_selected_attention_grad_rules() {
  static const OpRules rules{{OpId::kNsaSelectedAttentionGrad,
                              "NsaSelectedAttentionGrad",
                              "nsa_selected_attention_grad",
                              {{"query"},
                               {"key"},
                               {"value"},
                               {"attention_out"},
                               {"attention_out_grad"},
                               {"softmax_max"},
                               {"softmax_sum"},
                               {"topk_indices"},
                               {"actual_seq_qlen", false, true},
                               {"actual_seq_kvlen", false, true},
                               {"q_offset", true, true}},
                              attr_specs(),
                              {"dq", "dk", "dv"}},
                             infer_backward};
  return rules;
}

}  // namespace nsa
