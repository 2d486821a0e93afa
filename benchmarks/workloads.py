"""Workloads: seeded inputs of an operator, of any size, and what they cost.

A call is a `Case`, so that its outputs are judged as the tests judge them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mindspore_nsa.reference import compressed_seq_len
from mindspore_nsa.testing.case import Case
from mindspore_nsa.testing.dtypes import decode, encode

from .counts import attention_flops, compressed_pairs, selected_pairs, window_pairs

L, S, SELECT, COUNT = 32, 16, 64, 16
UNBOUNDED = 2147483647


def nbytes(tensors):
    """Bytes of the tensors that are there."""
    bits = (x[1] if isinstance(x, tuple) else x for x in tensors if x is not None)
    return sum(x.nbytes for x in bits)


@dataclass
class Workload:
    """A forward call, its gradient's call, and their cost."""

    forward: Case
    gradient: Callable  # outputs of the forward call -> Case
    shape: str
    unit: str  # FLOP, or B for an operator bound by memory
    work: dict  # direction -> operations or bytes
    # () -> (query, key, value) [1, N, S, D] of dense causal attention, if that is a peer
    dense: Callable | None = None


def _scale(dim):
    return float(np.float32(dim**-0.5))


def _draw(rng, dtype, *shape):
    return encode(rng.standard_normal(shape, np.float32), dtype)


def _attention_work(pairs, dim, value_dim):
    return {d: attention_flops(pairs, dim, value_dim, d) for d in ("forward", "backward")}


def _flash_gradient_inputs(forward, dy, outputs):
    out, row_max, row_sum = outputs
    return {
        **forward,
        "dy": dy,
        "softmax_max": row_max,
        "softmax_sum": row_sum,
        "attention_in": out,
    }


def flash(tokens, dtype, heads=16, kv_heads=16, dim=128, window=None):
    """FlashAttentionScore, BNSD, causal; with a window a query sees that many keys."""
    rng = np.random.default_rng(1)
    shapes = ((1, n, tokens, dim) for n in (heads, kv_heads, kv_heads, heads))
    query, key, value, dy = (_draw(rng, dtype, *shape) for shape in shapes)
    inputs = {"query": query, "key": key, "value": value}
    attrs = {
        "head_num": heads,
        "keep_prob": 1.0,
        "scalar_value": _scale(dim),
        "pre_tokens": UNBOUNDED if window is None else window - 1,
        "next_tokens": UNBOUNDED if window is None else 0,
        "input_layout": "BNSD",
        "sparse_mode": 3 if window is None else 4,
        "pse_type": 1,
    }
    forward = Case.of("FlashAttentionScore", inputs, attrs, dtype)

    def gradient(outputs):
        more = {"compress_block_size": 0, "compress_stride": 0, "pse_grad": 0}
        named = _flash_gradient_inputs(inputs, dy, outputs)
        return Case.of("FlashAttentionScoreGrad", named, {**attrs, **more}, dtype)

    return Workload(
        forward,
        gradient,
        f"S={tokens} N={heads}/{kv_heads} D={dim}",
        "FLOP",
        _attention_work(heads * window_pairs(tokens, window or tokens), dim, dim),
        lambda: (query, key, value),
    )


def choose_blocks(rng, tokens, kv_heads, select, count):
    """int32 [T, N2, cnt]: block 0, a query's own, the one before, and distinct earlier ones."""
    indices = np.full((tokens, kv_heads, count), -1, np.int32)
    for own in range(-(-tokens // select)):
        rows = slice(own * select, min((own + 1) * select, tokens))
        fixed = sorted({0, max(own - 1, 0), own})
        earlier = np.arange(1, max(own - 1, 1))
        free = min(len(earlier), count - len(fixed))
        order = rng.random((rows.stop - rows.start, kv_heads, len(earlier))).argsort(axis=-1)
        chosen = earlier[order[..., :free]]
        indices[rows, :, : len(fixed)] = fixed[:count]
        indices[rows, :, len(fixed) : len(fixed) + free] = chosen
    return indices


def _packed(tokens, keys, dtype, heads, kv_heads, dim):
    rng = np.random.default_rng(2)
    query, dy = (_draw(rng, dtype, tokens, heads, dim) for _ in range(2))
    key, value = (_draw(rng, dtype, keys, kv_heads, dim) for _ in range(2))
    return rng, query, key, value, dy


def selected(tokens, dtype, heads=16, kv_heads=1, dim=128):
    """NsaSelectedAttention, one causal segment."""
    rng, query, key, value, dy = _packed(tokens, tokens, dtype, heads, kv_heads, dim)
    indices = choose_blocks(rng, tokens, kv_heads, SELECT, COUNT)
    ends = np.array([tokens], np.int64)
    attrs = {
        "scale_value": _scale(dim),
        "head_num": heads,
        "select_block_size": SELECT,
        "select_block_count": COUNT,
        "causal": 1,
    }
    inputs = {
        **{"query": query, "key": key, "value": value, "topk_indices": indices},
        **{"actual_seq_qlen": ends, "actual_seq_kvlen": ends},
    }
    forward = Case.of("NsaSelectedAttention", inputs, attrs, dtype)

    def gradient(outputs):
        out, row_max, row_sum = outputs
        results = {"attention_out": out, "softmax_max": row_max, "softmax_sum": row_sum}
        named = {**inputs, **results, "attention_out_grad": dy}
        return Case.of("NsaSelectedAttentionGrad", named, attrs, dtype)

    pairs = heads // kv_heads * selected_pairs(indices, SELECT, tokens)
    return Workload(
        forward,
        gradient,
        f"S={tokens} N={heads}/{kv_heads} D={dim} l'={SELECT} cnt={COUNT}",
        "FLOP",
        _attention_work(pairs, dim, dim),
        lambda: tuple(_heads_first(x, heads) for x in (query, key, value)),
    )


def compress_attention(tokens, dtype, heads=16, kv_heads=1, dim=128):
    """NsaCompressAttention with top-k, one causal segment."""
    ends = np.array([tokens], np.int64)
    keys = compressed_seq_len(ends, L, S)
    _, query, key, value, dy = _packed(tokens, int(keys[-1]), dtype, heads, kv_heads, dim)
    keys = np.asarray(keys, np.int64)
    inputs = {"query": query, "key": key, "value": value, "actual_seq_qlen": ends}
    attrs = {
        "scale_value": _scale(dim),
        "head_num": heads,
        "compress_block_size": L,
        "compress_stride": S,
        "select_block_size": SELECT,
        "select_block_count": COUNT,
        "causal": 1,
        "init_blocks": 1,
        "local_blocks": 2,
        "importance": "overlap",
    }
    named = {**inputs, "actual_cmp_seq_kvlen": keys}
    forward = Case.of("NsaCompressAttention", named, attrs, dtype)

    def gradient(outputs):
        out, _, row_max, row_sum = outputs
        gradient_attrs = {
            "head_num": heads,
            "keep_prob": 1.0,
            "scalar_value": attrs["scale_value"],
            "pre_tokens": UNBOUNDED,
            "next_tokens": UNBOUNDED,
            "input_layout": "TND",
            "sparse_mode": 0,
            "pse_type": 1,
            "pse_grad": 0,
            "compress_block_size": L,
            "compress_stride": S,
        }
        named = _flash_gradient_inputs(inputs, dy, (out, row_max, row_sum))
        named["actual_seq_kvlen"] = keys
        return Case.of("FlashAttentionScoreGrad", named, gradient_attrs, dtype)

    def dense():
        # Over as many keys as there are tokens; their values do not change its time.
        rng = np.random.default_rng(3)
        full = (_draw(rng, dtype, tokens, kv_heads, dim) for _ in range(2))
        return tuple(_heads_first(x, heads) for x in (query, *full))

    return Workload(
        forward,
        gradient,
        f"S={tokens} N={heads}/{kv_heads} D={dim} l={L} s={S} l'={SELECT} cnt={COUNT}",
        "FLOP",
        _attention_work(heads * compressed_pairs(tokens, L, S), dim, dim),
        dense,
    )


def compress(tokens, dtype, heads=4, dim=128):
    """NsaCompress of one segment; what counts is every input and output once."""
    rng = np.random.default_rng(4)
    ends = np.array([tokens], np.int64)
    rows = int(compressed_seq_len(ends, L, S)[-1])
    x, weight = _draw(rng, dtype, tokens, heads, dim), _draw(rng, dtype, L, heads)
    dy = _draw(rng, dtype, rows, heads, dim)
    window = {"compress_block_size": L, "compress_stride": S}
    inputs = {"input": x, "weight": weight, "actual_seq_len": ends}
    forward = Case.of("NsaCompress", inputs, {**window, "num_windows": rows}, dtype)

    def gradient(outputs):
        return Case.of("NsaCompressGrad", {**inputs, "output_grad": dy}, window, dtype)

    moved = nbytes(inputs.values()) + nbytes([dy])
    work = {"forward": moved, "backward": moved + nbytes([x, weight])}
    return Workload(forward, gradient, f"T={tokens} N={heads} D={dim} l={L} s={S}", "B", work)


def repeated(x, heads):
    """[1, N, T, D] as [1, heads, T, D], the key heads repeated for their groups."""
    dtype = x[0] if isinstance(x, tuple) else x.dtype.name
    bits = x[1] if isinstance(x, tuple) else x
    bits = np.repeat(bits, heads // bits.shape[1], axis=1)
    return (dtype, bits) if isinstance(x, tuple) else bits


def _heads_first(x, heads):
    """[T, N, D] as [1, heads, T, D]."""
    dtype = x[0] if isinstance(x, tuple) else x.dtype.name
    return repeated(encode(decode(x).transpose(1, 0, 2)[None], dtype), heads)
