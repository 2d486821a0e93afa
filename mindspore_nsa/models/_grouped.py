"""Grouped-query attention over blocks of tokens that an indexer picked: MiniMax-M3, Qwen4-exp."""

import mindspore
from mindspore import ops

from ..nn.precision import rounded
from ..ops._by_device import split
from ..ops.nsa_selected_attention import selected_attention
from ._base import ModelAttention
from ._cache import BATCH, CAPACITY, WHOLE_BLOCKS, kept, with_tokens
from ._parts import Angles, Linear, RMSNorm, turned
from ._text import longest_document, text_before, text_ends, text_positions, text_rows


class GroupedAttention(ModelAttention):
    """Heads with norms, a rotary embedding of their first dimensions, and picked blocks.

    Args:
        fields (Fields): num_attention_heads, num_key_value_heads, head_dim and the indexer's.
        rope (Rope): The rotary embedding.
        block_size (int): Tokens of a block.
        bias (bool): Whether the projections have biases.
        gated (bool): Whether `q_proj` has gates of the output behind the queries of a head.
    """

    def __init__(self, fields, rope, block_size, bias, gated):
        super().__init__(fields)
        f, hidden = fields, fields.hidden_size
        self.heads, self.kv_heads = f.num_attention_heads, f.num_key_value_heads
        divides = self.heads % self.kv_heads == 0
        f.require("num_key_value_heads", divides, "a divisor of num_attention_heads")
        self.dim = f.head_dim
        self.block_size, self.gated, self.scale = block_size, gated, self.dim**-0.5
        self.query_dim = self.dim * (2 if gated else 1)
        self.q_proj = Linear(hidden, self.heads * self.query_dim, bias)
        self.k_proj = Linear(hidden, self.kv_heads * self.dim, bias)
        self.v_proj = Linear(hidden, self.kv_heads * self.dim, bias)
        self.o_proj = Linear(self.heads * self.dim, hidden, bias)
        self.q_norm = RMSNorm(self.dim, f.rms_norm_eps, offset=1.0)
        self.k_norm = RMSNorm(self.dim, f.rms_norm_eps, offset=1.0)
        self.angles = Angles(rope)

    def kept(self):
        """Keys, values, and what the indexer keeps."""
        sizes = WHOLE_BLOCKS, 1, self.kv_heads * self.dim
        held = ("key", *sizes), ("value", *sizes)
        return held if self.indexer is None else held + self.indexer.kept()

    def attend(self, x, text, cache, picks, stage, dtype):
        """See `ModelAttention`."""
        cos, sin = self.angles(text_positions(text))
        query, gate = ops.reshape(self.q_proj(x, dtype), (-1, self.heads, self.query_dim)), None
        if self.gated:
            query, gate = split(query, self.dim, -1)
        key = ops.reshape(self.k_proj(x, dtype), (-1, self.kv_heads, self.dim))
        value = ops.reshape(self.v_proj(x, dtype), (-1, self.kv_heads, self.dim))
        query = turned(self.q_norm(query), cos, sin)
        key = turned(self.k_norm(key), cos, sin)
        query, key, value = rounded(query, dtype), rounded(key, dtype), rounded(value, dtype)
        if self.indexer is not None:
            chosen, cache = self.indexer(ops.stop_gradient(x), text, cos, sin, cache, dtype)
            picks = chosen if picks is None else picks
        out = self._selected(query, key, value, picks, text, cache, dtype)
        out = ops.cast(out, mindspore.float32)
        if self.gated:
            out = out * ops.sigmoid(gate)
        return self.o_proj(ops.reshape(out, (-1, self.heads * self.dim)), dtype), picks, None

    def _selected(self, query, key, value, picks, text, cache, dtype):
        """Causal attention over blocks of tokens, all of them without picks."""
        ends, before, kv_ends, size = text_ends(text), None, text_ends(text), self.block_size
        if cache is None:
            query, key, value = (ops.cast(t, dtype) for t in (query, key, value))
        else:
            cache = with_tokens(with_tokens(cache, "key", text, key), "value", text, value)
            key = ops.reshape(kept(cache, "key"), (-1, self.kv_heads, self.dim))
            value = ops.reshape(kept(cache, "value"), (-1, self.kv_heads, self.dim))
            before, kv_ends = text_before(text), (ops.arange(cache[BATCH]) + 1) * cache[CAPACITY]
        if self.indexer is None:
            # One block of all tokens.
            size = longest_document(text)
            first = ops.cast(ops.zeros_like(text_rows(text)), mindspore.int32)
            picks = ops.tile(ops.reshape(first, (-1, 1, 1)), (1, self.kv_heads, 1))
        else:
            picks = self.picks_of_heads(picks)
        return selected_attention(
            query, key, value, picks, self.scale, self.heads, size, picks.shape[-1], None, ends,
            kv_ends, True, before, False,
        )[0]  # fmt: skip

    def picks_of_heads(self, picks):
        """Picks [T, kv_heads, k]."""
        return ops.tile(ops.expand_dims(picks, 1), (1, self.kv_heads, 1))
