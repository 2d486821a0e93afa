"""The lightning indexer over tokens, of DeepSeek V3.2 and GLM-5."""

from mindspore import ops

from ..nn.precision import ExplicitPrecision
from ._cache import WHOLE_BLOCKS, with_tokens
from ._parts import LayerNorm, Linear, turned
from ._picks import pick_keys
from ._text import longest_document


class TokenIndexer(ExplicitPrecision):
    r"""Query, key and weights of the scores :math:`\sum_h w[h] \max(0, q[h] \cdot k)`, in float32.

    Args:
        fields (Fields): Those of `LATENT_FIELDS`.
        pairs (bool): Whether neighbouring dimensions turn together, else those half of the rotary
            dimensions apart.
    """

    def __init__(self, fields, pairs):
        super().__init__()
        f = fields
        self.heads, self.dim, self.pairs = f.index_n_heads, f.index_head_dim, pairs
        self.count = f.index_topk
        self.wq_b = Linear(f.q_lora_rank, self.heads * self.dim)
        self.wk = Linear(f.hidden_size, self.dim)
        self.k_norm = LayerNorm(self.dim)
        self.weights_proj = Linear(f.hidden_size, self.heads)
        # Both factors of the scores are positive, so they may stand in the weights.
        self.factor = (self.heads * self.dim) ** -0.5

    def construct(self, x, residual, text, cos, sin, cache, dtype):
        """Query [T, heads, d], key [T, 1, d], weights [T, heads] of the scores, and the cache."""
        query = ops.reshape(self.wq_b(residual, dtype), (-1, self.heads, self.dim))
        key = ops.expand_dims(self.k_norm(self.wk(x, dtype)), 1)
        query = turned(query, cos, sin, self.pairs)
        key = turned(key, cos, sin, self.pairs)
        if cache is not None:
            cache = with_tokens(cache, "index", text, key)
        return (query, key, self.weights_proj(x, x.dtype) * self.factor), cache

    def pick(self, scores, text, cache, key_ends):
        """Picks [T, k] by what `construct` gave, of keys whose segments end at `key_ends`."""
        count = min(self.count, longest_document(text))
        return pick_keys(*scores, text, cache, "index", count, key_ends=key_ends)

    def kept(self):
        """The cache holds the index keys."""
        return (("index", WHOLE_BLOCKS, 1, self.dim),)
