"""DeepSeek V4's compressors: one entry for r tokens, and the indexer over such entries."""

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, ops

from ..nn.precision import ExplicitPrecision
from ..ops._by_device import split
from ..ops.compressor import pooled_windows
from ._cache import ENTRIES, RING
from ._parts import Linear, RMSNorm, turned_in_place
from ._picks import pick_keys
from ._pooling import (
    NOTHING,
    keep_last,
    softmax_pooled,
    tokens_of,
    write_entries,
)
from ._text import longest_document, places_of, text_positions, windows_of


class Compressor(ExplicitPrecision):
    r"""Entries of windows of r tokens, softmax-weighted for every channel.

    Window w has the tokens r w .. r w + r - 1. Its entry is
    :math:`rms(\sum_t softmax_t(gate_t + bias_t) kv_t)`, turned by the angles of position r w. With
    overlap kv, gate and bias have two sets of channels, a and b; the softmax is over b of the
    window's own tokens and a of the r tokens before.

    Args:
        fields (Fields): hidden_size and rms_norm_eps.
        dim (int): Channels of an entry, D.
        size (int): Tokens of a window, r.
        overlap (bool): Whether an entry mixes the tokens of the window before, too.
        angles (Cell): Cosines and sines of positions.
        cached (str): Name of the entries in a cache.
    """

    def __init__(self, fields, dim, size, overlap, angles, cached):
        super().__init__()
        self.dim, self.size, self.overlap, self.cached = dim, size, overlap, cached
        width = 2 * dim if overlap else dim
        self.kv_proj = Linear(fields.hidden_size, width)
        self.gate_proj = Linear(fields.hidden_size, width)
        bias = Tensor(np.zeros((size, width), np.float32))
        self.position_bias = Parameter(bias, name="position_bias")
        self.kv_norm = RMSNorm(dim, fields.rms_norm_eps)
        self.angles = angles

    def kept(self):
        """Entries; kv and gate of the tokens of the open window, and of the one before."""
        held = (
            (self.cached, ENTRIES, self.size, self.dim),
            (f"{self.cached} own", RING, self.size, 2 * self.dim),
        )
        if self.overlap:
            held += ((f"{self.cached} before", RING, 2 * self.size, 2 * self.dim),)
        return held

    def entries(self, x, text, cache, dtype):
        """Entries [E, 1, D] of the windows that end in packed x, these windows, and the cache."""
        windows = windows_of(text, x.shape[0], self.size, cache)
        _, rows, numbers, _ = windows
        first = numbers * self.size
        own = ops.expand_dims(first, 1) + ops.arange(self.size)
        kv, gate = self.kv_proj(x, dtype), self.gate_proj(x, dtype)
        if cache is None:
            entries = self._pooled(kv, gate, text, windows, own)
        else:
            entries, cache = self._pooled_with_kept(kv, gate, text, rows, own, cache)
        entries = ops.expand_dims(self.kv_norm(entries), 1)
        entries = turned_in_place(entries, *self.angles(ops.maximum(first, 0)))
        if cache is not None:
            cache = write_entries(entries, windows, cache, self.cached)
        return entries, windows, cache

    def _pooled(self, kv, gate, text, windows, positions):
        """Entries [E, D] of windows whose tokens are all in this call, 0 where there is none."""
        _, rows, _, there = windows
        own = ops.cast(places_of(text, rows, positions, 0), mindspore.int32)
        own = ops.where(ops.expand_dims(there, 1), own, ops.full_like(own, -1))
        before = None
        if self.overlap:
            first = ops.logical_or(positions < self.size, own < 0)
            before = ops.where(first, ops.full_like(own, -1), own - self.size)
        return pooled_windows(kv, gate, self.position_bias, own, before)

    def _pooled_with_kept(self, kv, gate, text, rows, own, cache):
        """Entries [E, D] of windows that may begin with tokens of the cache, and the cache."""
        bias = self.position_bias
        if self.overlap:
            kv_a, kv = split(kv, self.dim, -1)
            gate_a, gate = split(gate, self.dim, -1)
            bias_a, bias = split(bias, self.dim, -1)
        own_part, before_part = self.cached + " own", self.cached + " before"
        values, logits, cache = self._tokens(kv, gate, bias, text, rows, own, cache, own_part)
        if self.overlap:
            before = own - self.size
            values_a, logits_a, cache = self._tokens(
                kv_a, gate_a, bias_a, text, rows, before, cache, before_part
            )
            there = ops.expand_dims(before >= 0, 2)
            logits_a = ops.where(there, logits_a, ops.full_like(logits_a, NOTHING))
            values = ops.concat((values_a, values), 1)
            logits = ops.concat((logits_a, logits), 1)
        return softmax_pooled(values, logits), cache

    def _tokens(self, kv, gate, bias, text, rows, positions, cache, part):
        """kv and gate with bias [E, r, D] of the tokens at positions [E, r], and the cache."""
        raw = ops.concat((kv, gate), -1)
        tokens = tokens_of(raw, text, rows, positions, cache, part)
        cache = keep_last(raw, text, cache, part, tokens)
        values, logits = split(tokens, self.dim, -1)
        return values, logits + bias, cache


class _Scorer(ExplicitPrecision):
    """The weights of the index heads, by the names of transformers' parameters."""

    def __init__(self, hidden, heads):
        super().__init__()
        self.weights_proj = Linear(hidden, heads)


class EntryIndexer(Compressor):
    r"""The entries of largest :math:`\sum_h w[h] \max(0, q[h] \cdot k)`, with k of its own."""

    def __init__(self, fields, size, angles):
        f = fields
        super().__init__(f, f.index_head_dim, size, True, angles, "index")
        self.heads, self.count = f.index_n_heads, f.index_topk
        self.q_b_proj = Linear(f.q_lora_rank, self.heads * self.dim)
        self.scorer = _Scorer(f.hidden_size, self.heads)
        self.factor = (self.heads * self.dim) ** -0.5

    def scores(self, x, residual, text, cache, dtype):
        """Scores and the cache: query [T, heads, d], keys [E, 1, d], weights, and windows."""
        query = ops.reshape(self.q_b_proj(residual, dtype), (-1, self.heads, self.dim))
        query = turned_in_place(query, *self.angles(text_positions(text)))
        key, windows, cache = self.entries(x, text, cache, dtype)
        return (query, key, self.scorer.weights_proj(x, x.dtype) * self.factor, windows), cache

    def pick(self, scores, text, cache):
        """Picks [T, k] of entries that have ended."""
        query, key, weights, windows = scores
        count = max(min(self.count, longest_document(text) // self.size), 1)
        return pick_keys(query, key, weights, text, cache, "index", count, self.size, windows[0])


class CsaCompressor(Compressor):
    """Overlapping windows, with an indexer that picks entries."""

    def __init__(self, fields, size, angles):
        super().__init__(fields, fields.head_dim, size, True, angles, "entries")
        self.indexer = EntryIndexer(fields, size, angles)

    def kept(self):
        """See `Compressor`."""
        return super().kept() + self.indexer.kept()


class HcaCompressor(Compressor):
    """Windows one after the other; a query sees all entries that have ended."""

    def __init__(self, fields, size, angles):
        super().__init__(fields, fields.head_dim, size, False, angles, "entries")


def all_ended(text, size):
    """The entries [T, E] that have ended at every token, -1 for the others."""
    entries = ops.arange(max(longest_document(text) // size, 1))
    ended = ops.expand_dims(ops.floor_divide(text_positions(text) + 1, size), 1)
    found = ops.where(entries < ended, entries, ops.full_like(entries, -1))
    return ops.cast(found, mindspore.int32)
