"""The attention of Qwen4-exp's text model: gated grouped queries over groups of tokens."""

from mindspore import ops

from ..nn.precision import ExplicitPrecision
from ..ops._by_device import split
from ._cache import ENTRIES, RING
from ._config import Fields
from ._grouped import GroupedAttention
from ._parts import Angles, Linear, RMSNorm, turned
from ._picks import pick_keys, with_open_block
from ._pooling import keep_last, tokens_of, write_entries
from ._text import longest_document, windows_of

_DEFAULTS = {
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "attention_bias": False,
    "indexer_n_heads": None,
    "indexer_kv_heads": None,
    "indexer_head_dim": None,
    "indexer_budget": None,
    "indexer_compress_ratio": None,
}


class GroupIndexer(ExplicitPrecision):
    r"""The groups of r tokens of largest :math:`\sum_h \max(0, q[h] \cdot k) / \sqrt{d}`.

    k is the mean of the group's raw keys, then normed, then turned by the angles of its first
    position. A group can be picked once it has ended; the open one always is read.
    """

    def __init__(self, fields, rope):
        super().__init__()
        f = fields
        self.heads, self.dim = f.indexer_n_heads, f.indexer_head_dim
        self.size = f.indexer_compress_ratio
        self.count = f.indexer_budget // self.size
        self.index_qk_proj = Linear(f.hidden_size, (self.heads + 1) * self.dim)
        self.q_layernorm = RMSNorm(self.dim, f.rms_norm_eps, offset=1.0)
        self.k_layernorm = RMSNorm(self.dim, f.rms_norm_eps, offset=1.0)
        self.angles = Angles(rope)

    def kept(self):
        """Groups that have ended, and raw keys of the open one."""
        return ("index", ENTRIES, self.size, self.dim), ("open", RING, self.size, self.dim)

    def construct(self, x, text, cos, sin, cache, dtype):
        """Picks [T, k + 1] of groups for x [T, hidden], the open group last, and the cache."""
        both = self.index_qk_proj(x, dtype)
        query, raw = split(both, (self.heads * self.dim, self.dim), -1)
        query = self.q_layernorm(ops.reshape(query, (-1, self.heads, self.dim)))
        query = turned(query, cos, sin) * self.dim**-0.5
        windows = windows_of(text, x.shape[0], self.size, cache)
        sums, rows, numbers, _ = windows
        first = numbers * self.size
        places = ops.expand_dims(first, 1) + ops.arange(self.size)
        key = self.k_layernorm(tokens_of(raw, text, rows, places, cache, "open").mean(1))
        key = turned(ops.expand_dims(key, 1), *self.angles(ops.maximum(first, 0)))
        if cache is not None:
            cache = keep_last(raw, text, cache, "open", key)
            cache = write_entries(key, windows, cache, "index")
        count = max(min(self.count, longest_document(text) // self.size), 1)
        picks = pick_keys(query, key, None, text, cache, "index", count, self.size, sums)
        return with_open_block(picks, text, self.size), cache


class Qwen4ExpTextAttention(GroupedAttention):
    r"""Gated grouped-query attention over groups of tokens that an indexer picks.

    Groups of `indexer_compress_ratio` tokens, `indexer_budget` tokens in all, have the largest
    :math:`\sum_h \max(0, q[h] \cdot k)`, where k is the normed mean of a group's keys; the tokens
    of the group that is still open are read beyond them. So a query that ends a group may not see
    itself. Queries and keys have norms with weights :math:`1 + w`, and the output of every head is
    multiplied by the sigmoid of a gate. The indexer gets no gradient. Positions are those of text:
    the three of an image's patches are not served.

    Args:
        config (Union[dict, object]): The dict of a config.json, or an object with `to_dict()`, of
            the text model or of the whole.
        layer_idx (int): Number of the layer, one whose type is "indexed_attention".

    Inputs:
        - **x**, **actual_seq_len**, **cache**, **key_padding_mask**, **return_indices** - As those
          of `DeepseekV32Attention`.
        - **topk_indices** (Tensor, optional) - Numbers of groups, int32, shape :math:`(B, S, k)` or
          :math:`(T, k)`, as `return_indices` gives them, with the open group. Default: ``None``.
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
        >>> from mindspore_nsa.models import Qwen4ExpTextAttention
        >>> config = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        ...     indexer_n_heads=4, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=8,
        ...     indexer_compress_ratio=4)
        >>> layer = Qwen4ExpTextAttention(config, 0)
        >>> x = Tensor(np.random.randn(2, 20, 64).astype(np.float32))
        >>> y, groups = layer(x, return_indices=True)
        >>> print(y.shape, groups.shape)
        (2, 20, 64) (2, 20, 3)
    """

    def __init__(self, config, layer_idx):
        types = ("qwen4_exp_text", "qwen4_exp")
        f = Fields(type(self).__name__, config, _DEFAULTS, types, layer_idx)
        rope = f.rope(f.head_dim)
        self._check(f, rope)
        super().__init__(f, rope, f.indexer_compress_ratio, bool(f.attention_bias), True)
        self.indexer = GroupIndexer(f, rope)

    @staticmethod
    def _check(f, rope):
        kinds = f.given.get("layer_types")
        if kinds is not None and f.of_layer("layer_types", kinds) == "linear_attention":
            f.require("layer_types", False, f"indexed_attention for layer {f.layer_idx}")
        f.require("indexer_kv_heads", f.indexer_kv_heads == 1, "1")
        whole = f.indexer_budget % f.indexer_compress_ratio == 0
        f.require("indexer_budget", whole, "a multiple of indexer_compress_ratio")
        f.require("indexer_head_dim", f.indexer_head_dim >= rope.dim, f"at least the {rope.dim} "
                  "dimensions that turn")  # fmt: skip
