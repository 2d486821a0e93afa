"""The attention of MiniMax-M3's text model: grouped queries over blocks that an indexer picks."""

from mindspore import ops

from .. import ops as nsa
from ..nn.precision import ExplicitPrecision
from ._cache import BATCH, CAPACITY, WHOLE_BLOCKS, kept, with_tokens
from ._config import Fields
from ._grouped import GroupedAttention
from ._parts import Linear, RMSNorm, turned
from ._text import longest_document, text_before, text_ends

_DEFAULTS = {
    "hidden_size": 6144,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "index_n_heads": 4,
    "index_head_dim": 128,
    "index_block_size": 128,
    "index_topk_blocks": 16,
    "index_local_blocks": 1,
}
# Older files have these names in `sparse_attention_config`.
_OLDER = {
    "index_n_heads": "sparse_num_index_heads",
    "index_head_dim": "sparse_index_dim",
    "index_block_size": "sparse_block_size",
    "index_topk_blocks": "sparse_topk_blocks",
    "index_local_blocks": "sparse_local_block",
}
_SPARSE, _FULL = "minimax_m3_sparse", "full_attention"


def _layer_type(fields, older):
    """Whether the layer picks blocks, in the configuration's words."""
    frequencies = older.get("sparse_attention_freq")
    default = [_FULL] * fields.layers
    if frequencies is not None:
        default = [_SPARSE if sparse else _FULL for sparse in frequencies]
    kind = fields.of_layer("layer_types", default)
    if kind not in (_SPARSE, _FULL):
        raise ValueError(f"{fields.name}: layer_types must be {_SPARSE} or {_FULL}, got {kind!r}")
    return kind


class BlockIndexer(ExplicitPrecision):
    r"""The blocks of largest :math:`\max_t q[h] \cdot k[t]` for every index head, in float32."""

    def __init__(self, fields):
        super().__init__()
        f = fields
        self.heads, self.dim = f.index_n_heads, f.index_head_dim
        self.size, self.count = f.index_block_size, f.index_topk_blocks
        self.local = f.index_local_blocks
        self.q_proj = Linear(f.hidden_size, self.heads * self.dim)
        self.k_proj = Linear(f.hidden_size, self.dim)
        self.q_norm = RMSNorm(self.dim, f.rms_norm_eps, offset=1.0)
        self.k_norm = RMSNorm(self.dim, f.rms_norm_eps, offset=1.0)

    def kept(self):
        """The cache holds the index keys."""
        return (("index", WHOLE_BLOCKS, 1, self.dim),)

    def construct(self, x, text, cos, sin, cache, dtype):
        """Picks [T, heads, k] of blocks for x [T, hidden], and the cache."""
        query = ops.reshape(self.q_proj(x, dtype), (-1, self.heads, self.dim))
        query = turned(self.q_norm(query), cos, sin)
        key = turned(ops.expand_dims(self.k_norm(self.k_proj(x, dtype)), 1), cos, sin)
        kv_ends, before = text_ends(text), None
        if cache is not None:
            cache = with_tokens(cache, "index", text, key)
            key = ops.expand_dims(kept(cache, "index"), 1)
            kv_ends, before = (ops.arange(cache[BATCH]) + 1) * cache[CAPACITY], text_before(text)
        count = min(self.count, (longest_document(text) - 1) // self.size + 1)
        picks = nsa.block_indexer(
            query, key, score="max", block_size=self.size, block_count=count,
            head_groups=self.heads, local_blocks=min(self.local, count),
            actual_seq_qlen=text_ends(text), actual_seq_kvlen=kv_ends, q_offset=before,
        )  # fmt: skip
        return picks, cache


class MiniMaxM3VLAttention(GroupedAttention):
    r"""Grouped-query attention over the blocks of tokens that an indexer picks.

    Every index head picks the `index_topk_blocks` blocks of `index_block_size` tokens with the
    largest product of its query and a visible key; the last `index_local_blocks` ones, the query's
    own included, always are among them. Its query heads attend to the visible tokens of these
    blocks. Queries and keys have norms with weights :math:`1 + w`. In layers that `layer_types`
    calls "full_attention" all earlier tokens are attended to. The indexer gets no gradient.

    Args:
        config (Union[dict, object]): The dict of a config.json, or an object with `to_dict()`, of
            the text model or of the whole.
        layer_idx (int): Number of the layer.

    Inputs:
        - **x**, **actual_seq_len**, **cache**, **key_padding_mask**, **return_indices** - As those
          of `DeepseekV32Attention`. Blocks count from the first token that is no padding.
        - **topk_indices** (Tensor, optional) - Numbers of blocks, int32, shape
          :math:`(B, S, index\_n\_heads, k)` or :math:`(T, index\_n\_heads, k)`, as
          `return_indices` gives them. Default: ``None``.
        - **stage** (None) - The model has no KL loss.

    Outputs:
        As those of `DeepseekV32Attention`.

    Raises:
        TypeError: If an argument or a field of the configuration has the wrong type.
        ValueError: If a shape or value is wrong, or a field has a value that is not served.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.models import MiniMaxM3VLAttention
        >>> config = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        ...     index_n_heads=2, index_head_dim=16, index_block_size=4, index_topk_blocks=2,
        ...     layer_types=["minimax_m3_sparse"])
        >>> layer = MiniMaxM3VLAttention(config, 0)
        >>> x = Tensor(np.random.randn(2, 20, 64).astype(np.float32))
        >>> y, blocks = layer(x, return_indices=True)
        >>> print(y.shape, blocks.shape)
        (2, 20, 64) (2, 20, 2, 2)
    """

    def __init__(self, config, layer_idx):
        types = ("minimax_m3_vl_text", "minimax_m3_vl")
        f = Fields(type(self).__name__, config, _DEFAULTS, types, layer_idx)
        older = f.given.get("sparse_attention_config", {})
        for name, old in _OLDER.items():
            setattr(f, name, older.get(old, getattr(f, name)))
        rope = f.rope(f.head_dim, 5000000.0)
        super().__init__(f, rope, f.index_block_size, False, False)
        self.indexer, self.pick_heads = None, None
        if _layer_type(f, older) == _SPARSE:
            self._check(f, rope)
            self.indexer, self.pick_heads = BlockIndexer(f), f.index_n_heads

    @staticmethod
    def _check(f, rope):
        groups = f.num_key_value_heads % f.index_n_heads == 0
        f.require("index_n_heads", groups, "a divisor of num_key_value_heads")
        f.require("index_head_dim", f.index_head_dim >= rope.dim, f"at least the {rope.dim} "
                  "dimensions that turn")  # fmt: skip
        local = 0 <= f.index_local_blocks <= f.index_topk_blocks
        f.require("index_local_blocks", local, "in [0, index_topk_blocks]")

    def picks_of_heads(self, picks):
        """Picks [T, kv_heads, k]: neighbouring key heads share those of an index head."""
        shared = self.kv_heads // self.pick_heads
        return picks if shared == 1 else ops.repeat_interleave(picks, shared, 1)
