"""Facts of the CPU kernels that the operators do not declare."""

from dataclasses import dataclass, field


@dataclass
class Kernel:
    """How an operator's kernel is called.

    Attributes:
        params: The struct of its parameters.
        names: For members that do not have the name of their source that of an input, an output or
            an attribute, "tensor[1]" for a size, "tensor[-1]" for the last one, C++ after "=", or a
            tuple of tensors for a member that is a list.
        by_hand: Members that binding/bind_*.cc fills, or that the operator does not have.
        run: Whether the kernel is called by hand, because members are filled by hand.
        work: Terms that add up to the multiplications of a call: each a tuple of factors, which are
            an input for its elements, an attribute, a size, a number, or C++ after "=".
        check: Whether the contents of tensors are checked, by hand.
        float32: The inputs that stay float32 under mixed precision, where one does by a condition
            with that; None: all that are declared so.
        function: The kernel where it has not the operator's name.
    """

    params: str
    names: dict = field(default_factory=dict)
    by_hand: tuple = ()
    run: bool = False
    work: tuple | None = None
    check: bool = False
    float32: tuple | None = None
    function: str = ""


_PACKED = {
    "seq_q": "actual_seq_qlen",
    "seq_kv": "actual_seq_kvlen",
    "B": "actual_seq_qlen",
}
_SELECTED = (("query", "select_block_size", "select_block_count"),)
_WINDOWS = (("input", "=ceil_div(attrs.compress_block_size, attrs.compress_stride)"),)
_COMPRESS = {"seq_len": "actual_seq_len", "B": "actual_seq_len"}
_BRANCHES = ("cmp", "slc", "win")
_HEADS = {
    "queries": tuple(f"query_{branch}" for branch in _BRANCHES),
    "keys": tuple(f"key_{branch}" for branch in _BRANCHES),
    "values": tuple(f"value_{branch}" for branch in _BRANCHES),
}
_FLASH = {
    **_PACKED,
    "q_start": "q_start_idx",
    "kv_start": "kv_start_idx",
}
_FLASH_BY_HAND = (
    *("B", "N1", "N2", "S1", "S2", "D", "Dv", "attn_mask", "mask_shape"),
    *("pse_shape", "pse_rank", "q_starts", "kv_starts"),
)
_CACHE_ROWS = {
    "scale": "scale_value",
    "kv_len": "actual_seq_kvlen",
    "B": "actual_seq_kvlen",
    "rule": "SelectionAttrs",
    "T": "=call.rows(in.query, 2)",
}
_CACHE_ROWS_BY_HAND = ("N2", "Dv", "q_len", "key", "value")


def _token_rows(query, key, query_lengths, key_lengths):
    """The sizes of queries and keys in batches or packed, where they have a rank less."""
    packed, packed_keys = (f"call.in(in.{name}).shape.size() == 3" for name in (query, key))
    return {
        "seq_q": query_lengths,
        "seq_k": key_lengths,
        "packed": f"={packed}",
        "rows": f"=call.rows(in.{query}, 2)",
        "keys": f"=call.rows(in.{key}, 2)",
        "B": f"={packed} ? call.list_length(in.{query_lengths}) : call.dim(in.{query}, 0)",
        "Sq": f"={packed} ? 0 : call.dim(in.{query}, 1)",
        "Sk": f"={packed_keys} ? 0 : call.dim(in.{key}, 1)",
    }


_INDEXER = {
    **_token_rows("query", "key", "actual_seq_lengths_query", "actual_seq_lengths_key"),
    "H": "query[-2]",
    "D": "query[-1]",
    "N2": "key[-2]",
}
_PAGES = {
    "places": "block_table[1]",
    "page": "=call.has(in.block_table) ? call.dim(in.key, 1) : 0",
}
_LOSS_INDEXER = {
    **_token_rows("query_index", "key_index", "actual_seq_qlen", "actual_seq_klen"),
    "H": "query_index[-2]",
    "d": "query_index[-1]",
    "groups": "key_index[-2]",
}
_LOSS = {
    **_LOSS_INDEXER,
    "dq": "d_query_index",
    "dk": "d_key_index",
    "dweights": "d_weights",
    "N": "query[-2]",
    "D": "query[-1]",
    "N2": "key[-2]",
    "R": "key_rope[-1]",
}
_TOKENS = {
    **_token_rows("query", "key", "actual_seq_lengths_query", "actual_seq_lengths_kv"),
    "N": "query[-2]",
    "D": "query[-1]",
    "N2": "key[-2]",
    "Dv": "value[-1]",
    "R": "key_rope[-1]",
    "count": "sparse_indices[-1]",
}
_TOKEN_BLOCKS = (
    (
        "query",
        "sparse_indices[-1]",
        "=std::min(attrs.sparse_block_size, std::max<int64_t>(1, elements(call, in.key)))",
    ),
)
# One of the key's sizes but the last is S2, in every layout.
_FLASH_WORK = (
    (
        "query",
        "=*std::max_element(call.in(in.key).shape.begin(), call.in(in.key).shape.end() - 1)",
    ),
)
# The slopes of a position bias, and the sink.
_FLASH_FLOAT32 = ("sink", ("real_shift", "attrs.pse_type >= 2"))

KERNELS = {
    "NsaCompress": Kernel("NsaCompressParams", {**_COMPRESS, "rows": "output[0]"}, work=_WINDOWS),
    "NsaCompressGrad": Kernel(
        "NsaCompressGradParams",
        {**_COMPRESS, "rows": "output_grad[0]"},
        by_hand=("output",),
        work=_WINDOWS,
    ),
    "NsaCompressAttention": Kernel(
        "NsaCompressAttentionParams",
        {
            **_PACKED,
            "seq_cmp_kv": "actual_cmp_seq_kvlen",
            "topk_mask_cols": "topk_mask[1]",
            "atten_mask_cols": "atten_mask[1]",
        },
        run=True,
        work=(("query", "T2"),),
    ),
    "NsaSelectedAttention": Kernel("NsaSelectedAttentionParams", _PACKED, work=_SELECTED),
    # The statistics of the forward must be float32: narrowed ones are an error.
    "NsaSelectedAttentionGrad": Kernel(
        "NsaSelectedAttentionGradParams", _PACKED, work=_SELECTED, float32=()
    ),
    "FlashAttentionScore": Kernel(
        "FlashAttentionScoreParams",
        _FLASH,
        by_hand=(*_FLASH_BY_HAND, "q_offset"),
        run=True,
        work=_FLASH_WORK,
        float32=_FLASH_FLOAT32,
    ),
    "FlashAttentionScoreGrad": Kernel(
        "FlashAttentionScoreGradParams",
        {**_FLASH, "attention_out": "attention_in"},
        by_hand=(*_FLASH_BY_HAND, "dpse", "dsink"),
        run=True,
        work=_FLASH_WORK,
        float32=_FLASH_FLOAT32,
    ),
    "NsaCompressWithCache": Kernel(
        "NsaCompressWithCacheParams",
        {
            **_COMPRESS,
            "slot": "slot_mapping",
            "block_size": "compress_block_size",
            "stride": "compress_stride",
            "N": "cache[1]",
            "D": "cache[2]",
        },
        by_hand=("input", "packed"),
        run=True,
        work=(("weight", "cache[2]", "actual_seq_len"),),
        check=True,
    ),
    "NsaCompressAttentionInfer": Kernel(
        "NsaCompressAttentionInferParams",
        {
            **_CACHE_ROWS,
            "B": "actual_cmp_seq_kvlen",
            "cmp_len": "actual_cmp_seq_kvlen",
            "sel_len": "actual_sel_seq_kvlen",
        },
        by_hand=_CACHE_ROWS_BY_HAND,
        run=True,
        work=(("query", "=call.longest(in.actual_cmp_seq_kvlen)"),),
        check=True,
    ),
    "NsaSelectedAttentionInfer": Kernel(
        "NsaSelectedAttentionInferParams",
        _CACHE_ROWS,
        by_hand=_CACHE_ROWS_BY_HAND,
        run=True,
        work=_SELECTED,
        check=True,
    ),
    "NsaCacheStep": Kernel(
        "NsaCacheStepParams",
        {
            "B": "selected[0]",
            "N2": "selected[1]",
            "scale": "scale_value",
            "rule": "SelectionAttrs",
            "shared": "shared_kv",
        },
        by_hand=("compressed", "selected", "window", "raw", "lengths", "written", "count"),
        run=True,
        work=_SELECTED,
        check=True,
    ),
    "NsaDecode": Kernel(
        "NsaDecodeParams",
        _CACHE_ROWS,
        by_hand=_CACHE_ROWS_BY_HAND,
        run=True,
        work=_SELECTED,
        check=True,
    ),
    "NsaSplitHeads": Kernel(
        "NsaSplitHeadsParams",
        {**_HEADS, "dtype": "query_cmp"},
        run=True,
        work=(("query",), ("key_value",)),
    ),
    "NsaSplitHeadsGrad": Kernel(
        "NsaSplitHeadsGradParams",
        {list_: tuple(f"{name}_grad" for name in names) for list_, names in _HEADS.items()},
        work=((2, "query_cmp_grad"),),
    ),
    "NsaMixBranches": Kernel(
        "NsaMixBranchesParams",
        {"branches": ("compressed", "selected", "window")},
        work=((3, "compressed"),),
    ),
    "NsaMixBranchesGrad": Kernel(
        "NsaMixBranchesGradParams",
        {
            "branches": ("compressed", "selected", "window"),
            "branch_grads": ("compressed_grad", "selected_grad", "window_grad"),
            "mixed_type": "mixed_grad",
        },
        by_hand=("mixed",),
        work=((6, "compressed"),),
    ),
    "NsaRound": Kernel("NsaRoundParams", {"dtype": "dtype", "n": "x"}, work=(("x",),)),
    "NsaLinear": Kernel(
        "NsaLinearParams",
        {"dtype": "dtype"},
        work=(("x", "N"),),
        float32=("x", "weight"),
    ),
    "NsaProjection": Kernel(
        "NsaProjectionParams",
        {"K": "weight[1]"},
        by_hand=("weights", "y", "N", "count", "T"),
        run=True,
    ),
    "NsaProjectionInputGrad": Kernel(
        "NsaProjectionInputGradParams",
        {"dx": "x_grad", "dy_type": "y_grad", "dx_type": "x", "K": "weight[1]"},
        by_hand=("weights", "dy", "N", "count", "T"),
        run=True,
    ),
    "NsaProjectionWeightGrad": Kernel(
        "NsaProjectionWeightGradParams",
        {"dy_type": "y_grad", "dw_type": "weight", "K": "weight[1]"},
        by_hand=("dw", "dy", "N", "count", "T"),
        run=True,
    ),
    "NsaDropoutMask": Kernel("DropoutMaskParams", work=(("numel",),)),
    "BlockIndexer": Kernel("BlockIndexerParams", {**_PACKED, "D": "d"}, work=(("query", "T2"),)),
    "LightningIndexer": Kernel(
        "LightningIndexerParams",
        {
            **_INDEXER,
            **_PAGES,
            "residual": "compress_residual",
            "sparse_values": "=attrs.return_value ? call.out(out.sparse_values) : nullptr",
        },
        run=True,
        work=(("query", "=call.rows(in.key, 1)"),),
    ),
    "LightningIndexerGrad": Kernel(
        "LightningIndexerGradParams",
        {
            **_INDEXER,
            "sparse_count": "sparse_indices[-1]",
            "indices": "sparse_indices",
            "dy": "sparse_values_grad",
        },
        by_hand=("residual", "block_table", "sparse_indices", "sparse_values", "places", "page"),
        work=(("query", "sparse_indices[-1]"),),
    ),
    "SparseFlashAttention": Kernel(
        "SparseFlashAttentionParams",
        {
            **_TOKENS,
            **_PAGES,
        },
        by_hand=("softmax_max", "softmax_sum"),
        run=True,
        work=_TOKEN_BLOCKS,
    ),
    "SparseFlashAttentionGrad": Kernel(
        "SparseFlashAttentionGradParams",
        _TOKENS,
        by_hand=(
            *("block_table", "places", "page", "softmax_max", "softmax_sum"),
            *("dq_rope", "dk_rope", "dsinks"),
        ),
        run=True,
        work=_TOKEN_BLOCKS,
    ),
    "SparseLightningIndexerGradKLLoss": Kernel(
        "IndexerKLLossParams",
        {**_LOSS, "count": "sparse_indices[-1]"},
        by_hand=("softmax_max_index", "softmax_sum_index"),
        work=(("query", "sparse_indices[-1]"), ("query_index", "sparse_indices[-1]")),
        function="sparse_indexer_kl_loss",
    ),
    "DenseLightningIndexerSoftmaxLse": Kernel(
        "IndexerKLLossParams",
        _LOSS_INDEXER,
        by_hand=(
            *("query", "key", "query_rope", "key_rope", "sparse_indices"),
            *("softmax_max", "softmax_sum", "dq", "dk", "dweights", "loss"),
            *("N", "N2", "D", "R", "count"),
        ),
        work=(("query_index", "=call.rows(in.key_index, 1)"),),
        function="dense_indexer_softmax_lse",
    ),
    "DenseLightningIndexerGradKLLoss": Kernel(
        "IndexerKLLossParams",
        _LOSS,
        by_hand=("sparse_indices", "count"),
        work=(
            ("query", "=call.rows(in.key, 1)"),
            ("query_index", "=call.rows(in.key_index, 1)"),
        ),
        function="dense_indexer_kl_loss",
    ),
}
