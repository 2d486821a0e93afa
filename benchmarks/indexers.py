"""Cases of the operators that choose what attention reads, against that attention.

A text of `tokens` keys; the queries stand in its middle, where they cost what all cost on the mean.
"""

from dataclasses import dataclass

import numpy as np

from mindspore_nsa.reference import compressed_seq_len
from mindspore_nsa.testing.case import Case

from . import peers
from .counts import attention_flops
from .speed import SpeedCase
from .workloads import L, S, Workload, _draw, _scale

QUERIES = 4096
DIM = 128


@dataclass(frozen=True)
class Method:
    """Heads of the indexer and of the attention, their blocks, and the score."""

    score: str
    heads: int
    key_heads: int
    groups: int
    block: int
    count: int
    init: int
    local: int
    attention_heads: int

    def sizes(self):
        """The sizes as tables show them."""
        return f"H={self.heads}/{self.key_heads} d={DIM} block={self.block} cnt={self.count}"


MSA = Method("max", 4, 1, 4, 128, 16, 0, 1, 64)
MOBA = Method("mean", 16, 16, 16, 512, 12, 0, 1, 16)
INFLLM = Method("softmax_max", 32, 2, 2, 64, 64, 1, 33, 32)


def _lists(queries, keys, offset):
    return [np.array([n], np.int64) for n in (queries, keys, offset)]


def block_indexer(method, tokens, dtype):
    """BlockIndexer of a method; the cost is that of its products."""
    rng = np.random.default_rng(5)
    queries = min(QUERIES, tokens)
    offset = (tokens - queries) // 2
    windows = method.score == "softmax_max"
    keys = int(compressed_seq_len([tokens], L, S)[0]) if windows else tokens
    lists = _lists(queries, keys, offset)
    inputs = {
        "query": _draw(rng, dtype, queries, method.heads, DIM),
        "key": _draw(rng, dtype, keys, method.key_heads, DIM),
        "actual_seq_qlen": lists[0],
        "actual_seq_kvlen": lists[1],
        "q_offset": lists[2],
    }
    attrs = {
        "score": method.score,
        "block_size": method.block,
        "block_count": method.count,
        "head_groups": method.groups,
        "scale": _scale(DIM),
        "init_blocks": method.init,
        "local_blocks": method.local,
    }
    if windows:
        attrs |= {"compress_block_size": L, "compress_stride": S}
    positions = offset + np.arange(queries)
    seen = {
        "max": positions + 1,
        "mean": positions // method.block + 1,
        "softmax_max": np.maximum((positions - L) // S + 1, 0),
    }[method.score]
    work = 2 * DIM * method.heads * int(seen.sum())
    forward = Case.of("BlockIndexer", inputs, attrs, dtype)
    shape = f"S={tokens}, {queries} queries, {method.sizes()}"
    return Workload(forward, None, shape, "FLOP", {"forward": work})


def attention(method, tokens, dtype, indices):
    """NsaSelectedAttention over the chosen blocks."""
    rng = np.random.default_rng(6)
    queries, heads = len(indices), method.attention_heads
    lists = _lists(queries, tokens, (tokens - queries) // 2)
    inputs = {
        "query": _draw(rng, dtype, queries, heads, DIM),
        "key": _draw(rng, dtype, tokens, method.groups, DIM),
        "value": _draw(rng, dtype, tokens, method.groups, DIM),
        "topk_indices": indices,
        "actual_seq_qlen": lists[0],
        "actual_seq_kvlen": lists[1],
        "q_offset": lists[2],
    }
    attrs = {
        "scale_value": _scale(DIM),
        "head_num": heads,
        "select_block_size": method.block,
        "select_block_count": method.count,
        "causal": 1,
    }
    return Case.of("NsaSelectedAttention", inputs, attrs, dtype)


def of_method(method):
    """A function of tokens and dtype, for the check."""

    def build(tokens, dtype):
        return block_indexer(method, tokens, dtype)

    return build


def lightning_indexer(tokens, dtype, heads=64, count=2048):
    """LightningIndexer of the last queries of a text, and its gradient."""
    rng = np.random.default_rng(7)
    queries = min(128, tokens)
    count = min(count, tokens)
    inputs = {
        "query": _draw(rng, dtype, 1, queries, heads, DIM),
        "key": _draw(rng, dtype, 1, tokens, 1, DIM),
        "weights": rng.standard_normal((1, queries, heads), np.float32),
    }
    attrs = {"sparse_count": count, "sparse_mode": 3, "return_value": 1}
    forward = Case.of("LightningIndexer", inputs, attrs, dtype)
    dy = _draw(rng, dtype, 1, queries, 1, count)

    def gradient(outputs):
        named = {**inputs, "sparse_indices": outputs[0], "sparse_values_grad": dy}
        return Case.of("LightningIndexerGrad", named, {}, dtype)

    seen = int((tokens - queries + 1 + np.arange(queries)).sum())
    work = {
        "forward": 2 * DIM * heads * seen,
        "backward": 3 * 2 * DIM * heads * queries * count,
    }
    shape = f"Sq={queries} Sk={tokens} H={heads} d={DIM} k={count}"
    return Workload(forward, gradient, shape, "FLOP", work)


def sparse_attention(tokens, dtype, heads=128, dim=512, ropes=64, count=2048):
    """SparseFlashAttention over latents, and its gradient."""
    rng = np.random.default_rng(8)
    queries, count = 32, min(count, tokens)
    latents = _draw(rng, dtype, 1, tokens, 1, dim)
    picks = np.stack([rng.permutation(tokens)[:count] for _ in range(queries)])
    inputs = {
        "query": _draw(rng, dtype, 1, queries, heads, dim),
        "key": latents,
        "value": latents,
        "sparse_indices": picks.reshape(1, queries, 1, count).astype(np.int32),
        "query_rope": _draw(rng, dtype, 1, queries, heads, ropes),
        "key_rope": _draw(rng, dtype, 1, tokens, 1, ropes),
    }
    attrs = {
        "scale_value": _scale(dim + ropes),
        "sparse_mode": 0,
        "attention_mode": 2,
        "return_softmax_lse": 0,
    }
    forward = Case.of("SparseFlashAttention", inputs, attrs, dtype)
    dout = _draw(rng, dtype, 1, queries, heads, dim)

    def gradient(outputs):
        named = {**inputs, "attention_out": outputs[0], "attention_out_grad": dout}
        return Case.of("SparseFlashAttentionGrad", named, attrs, dtype)

    pairs = heads * queries * count
    work = {d: attention_flops(pairs, dim + ropes, dim, d) for d in ("forward", "backward")}
    shape = f"Sq={queries} Sk={tokens} N={heads} D={dim}+{ropes} k={count}"
    return Workload(forward, gradient, shape, "FLOP", work)


def sparse_cases():
    """SparseFlashAttention and its gradient."""
    shares = {("float32", "forward"): 0.65, ("float32", "backward"): 0.5}
    return [
        SpeedCase(
            f"sparse_attention_{dtype}_{direction}",
            "SparseFlashAttention" + ("Grad" if direction == "backward" else ""),
            *(sparse_attention, dtype, direction, 32768, 2048),
            share=shares.get((dtype, direction)),
            peers=(),
            torch=peers.torch_sparse_attention,
        )
        for dtype in ("float32", "bfloat16")
        for direction in ("forward", "backward")
    ]


def token_cases():
    """LightningIndexer and its gradient."""
    return [
        SpeedCase(
            f"lightning_indexer_{dtype}_{direction}",
            "LightningIndexer" + ("Grad" if direction == "backward" else ""),
            *(lightning_indexer, dtype, direction, 32768, 4096),
            share=0.8 if (dtype, direction) == ("float32", "forward") else None,
            peers=(),
            torch=peers.torch_lightning_indexer,
        )
        for dtype in ("float32", "bfloat16")
        for direction in ("forward", "backward")
    ]


_METHODS = {"msa": MSA, "moba": MOBA, "infllm_v2": INFLLM}
_BUILDS = {name: of_method(method) for name, method in _METHODS.items()}


def indexer_cases():
    """Three methods, in float32 and bfloat16."""

    def reader(method):
        return lambda tokens, dtype, outputs: attention(method, tokens, dtype, outputs[0])

    return [
        SpeedCase(
            f"block_indexer_{name}_{dtype}",
            *("BlockIndexer", _BUILDS[name], dtype, "forward", 32768, 2048),
            peers=(),
            torch=lambda case, _: peers.torch_blocks(case),
            attention=reader(method),
            baseline_limit=0.15,
        )
        for name, method in _METHODS.items()
        for dtype in ("float32", "bfloat16")
    ]
