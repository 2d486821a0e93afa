"""Operators that are called, and where their gradients come from."""

from dataclasses import dataclass, field

# Operators that a public function, or a Cell, calls with its arguments.
CALLED = (
    "NsaCompress",
    "NsaCompressAttention",
    "NsaSelectedAttention",
    "NsaSelectedAttentionGrad",
    "FlashAttentionScore",
    "NsaCompressWithCache",
    "NsaCompressAttentionInfer",
    "NsaSelectedAttentionInfer",
    "NsaCacheStep",
    "NsaDecode",
    "BlockIndexer",
    "LightningIndexer",
    "SparseFlashAttention",
    "SparseLightningIndexerGradKLLoss",
    "DenseLightningIndexerSoftmaxLse",
    "DenseLightningIndexerGradKLLoss",
)
# They write into their inputs, and what is written into a cast copy is lost.
NEVER_CAST = ("NsaCacheStep", "NsaCompressWithCache")


@dataclass
class Gradient:
    """Where the gradients of an operator's inputs come from.

    Attributes:
        op: The operator that gives them; None: a function of `out` and `dout`.
        results: For each of its outputs the input that it is the gradient of, or None.
        sources: Expressions of `out` and `dout`, or other inputs, by the inputs of `op`.
        flagged: Sources that a plan may leave out.
        separate: The input whose gradient another call of `op` may give, and which need not have
            one.
    """

    op: str | None = None
    results: tuple = ()
    sources: dict = field(default_factory=dict)
    flagged: dict = field(default_factory=dict)
    separate: str | None = None


GRADIENTS = {
    "NsaCompress": Gradient(
        "NsaCompressGrad", results=("input", "weight"), sources={"output_grad": "dout"}
    ),
    "NsaCompressAttention": Gradient(
        "FlashAttentionScoreGrad",
        results=("query", "key", "value"),
        sources={
            "dy": "dout[0]",
            "attn_mask": "atten_mask",
            "softmax_max": "out[2]",
            "softmax_sum": "out[3]",
            "attention_in": "out[0]",
            "actual_seq_kvlen": "actual_cmp_seq_kvlen",
        },
        flagged={"softmax_sum_grad": "dout[3]"},
    ),
    "NsaSelectedAttention": Gradient(
        "NsaSelectedAttentionGrad",
        results=("query", "key", "value"),
        sources={
            "attention_out": "out[0]",
            "attention_out_grad": "dout[0]",
            "softmax_max": "out[1]",
            "softmax_sum": "out[2]",
        },
        flagged={"softmax_sum_grad": "dout[2]"},
    ),
    "FlashAttentionScore": Gradient(
        "FlashAttentionScoreGrad",
        results=("query", "key", "value", "real_shift", "sink"),
        sources={
            "dy": "dout[0]",
            "softmax_max": "out[1]",
            "softmax_sum": "out[2]",
            "attention_in": "out[0]",
        },
        flagged={"softmax_sum_grad": "dout[2]"},
        separate="real_shift",
    ),
    "LightningIndexer": Gradient(
        "LightningIndexerGrad",
        results=("query", "key", "weights"),
        sources={"sparse_values_grad": "dout[1]", "sparse_indices": "out[0]"},
    ),
    "SparseFlashAttention": Gradient(
        "SparseFlashAttentionGrad",
        results=("query", "key", "value", "query_rope", "key_rope", "sinks"),
        sources={"attention_out": "out[0]", "attention_out_grad": "dout[0]"},
        flagged={"softmax_sum_grad": "dout[2]"},
    ),
    "SparseLightningIndexerGradKLLoss": Gradient(results=("query_index", "key_index", "weights")),
    "DenseLightningIndexerGradKLLoss": Gradient(results=("query_index", "key_index", "weights")),
}
# Integer results, of which all gradients are zeros.
ZEROS = ("BlockIndexer", "LightningIndexer")
