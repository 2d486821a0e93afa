"""Cases of the losses that train an indexer, against the attention that it picks for."""

import numpy as np

from mindspore_nsa import _native
from mindspore_nsa.testing.case import INPUTS, Case
from mindspore_nsa.testing.dtypes import decode

from . import peers
from .indexers import DIM, sparse_attention
from .speed import SpeedCase
from .workloads import Workload, _draw


def _attention(tokens, dtype):
    """A forward case of SparseFlashAttention with its statistics, and these."""
    case = sparse_attention(tokens, dtype).forward
    attrs = {**case.attrs, "return_softmax_lse": 1}
    _, top, total = _native.run(case.op, case.inputs, attrs)
    return case, top, total


def sparse_kl_loss(tokens, dtype, heads=64):
    """The loss of an indexer for that attention; the cost is that of its products."""
    rng = np.random.default_rng(9)
    attention, top, total = _attention(tokens, dtype)
    named = attention.named()
    picks = named["sparse_indices"]
    (_, queries, _, count), attended = picks.shape, top.shape[-1]
    inputs = {
        **{name: named[name] for name in ("query", "key", "query_rope", "key_rope")},
        "query_index": _draw(rng, dtype, 1, queries, heads, DIM),
        "key_index": _draw(rng, dtype, 1, tokens, 1, DIM),
        "weights": rng.standard_normal((1, queries, heads), np.float32) / heads,
        "sparse_indices": picks,
        "softmax_max": top,
        "softmax_sum": total,
    }
    attrs = {"scale_value": attention.attrs["scale_value"], "sparse_mode": 0}
    op = "SparseLightningIndexerGradKLLoss"
    forward = Case.of(op, {n: inputs.get(n) for n in INPUTS[op]}, attrs, dtype)
    depth = sum(_width(named[name]) for name in ("query", "query_rope"))
    work = 2 * queries * count * (attended * depth + 3 * heads * DIM)
    shape = f"Sq={queries} Sk={tokens} N={attended} D={depth} H={heads} d={DIM} k={count}"
    return Workload(forward, None, shape, "FLOP", {"forward": work})


def dense_kl_loss(tokens, dtype, attended=32, heads=32, depth=128, ropes=64):
    """The loss over all keys, of the last queries of a text."""
    rng = np.random.default_rng(10)
    queries = min(128, tokens)
    scale = (depth + ropes) ** -0.5
    inputs = {
        "query": _draw(rng, dtype, 1, queries, attended, depth),
        "key": _draw(rng, dtype, 1, tokens, attended, depth),
        "query_index": _draw(rng, dtype, 1, queries, heads, DIM),
        "key_index": _draw(rng, dtype, 1, tokens, 1, DIM),
        "weights": rng.standard_normal((1, queries, heads), np.float32) / heads,
        "query_rope": _draw(rng, dtype, 1, queries, attended, ropes),
        "key_rope": _draw(rng, dtype, 1, tokens, attended, ropes),
    }
    inputs["softmax_max"], inputs["softmax_sum"] = _dense_statistics(inputs, scale)
    log_sum = Case.of(
        "DenseLightningIndexerSoftmaxLse",
        {name: inputs.get(name) for name in INPUTS["DenseLightningIndexerSoftmaxLse"]},
        {},
        dtype,
    )
    names = ("softmax_max_index", "softmax_sum_index")
    inputs |= dict(zip(names, _native.run(log_sum.op, log_sum.inputs, log_sum.attrs), strict=True))
    forward = Case.of("DenseLightningIndexerGradKLLoss", inputs, {"scale_value": scale}, dtype)
    pairs = int((tokens - queries + 1 + np.arange(queries)).sum())
    work = 2 * pairs * (attended * (depth + ropes) + 3 * heads * DIM)
    sizes = f"N={attended} D={depth}+{ropes} H={heads} d={DIM}"
    shape = f"Sq={queries} Sk={tokens} {sizes}"
    return Workload(forward, None, shape, "FLOP", {"forward": work})


def softmax_lse(tokens, dtype):
    """The statistics that this loss needs of the indexer."""
    loss = dense_kl_loss(tokens, dtype)
    op = "DenseLightningIndexerSoftmaxLse"
    named = loss.forward.named()
    forward = Case.of(op, {name: named[name] for name in INPUTS[op]}, {}, dtype)
    (_, queries, heads, _), keys = _shape(named["query_index"]), _shape(named["key_index"])[1]
    seen = int((keys - queries + 1 + np.arange(queries)).sum())
    shape = f"Sq={queries} Sk={keys} H={heads} d={DIM}"
    return Workload(forward, None, shape, "FLOP", {"forward": 2 * DIM * heads * seen})


def _dense_statistics(inputs, scale):
    """Maximum and sum of the attention of the last queries, [1, N, Sq, 1]."""
    q, k, q_rope, k_rope = (decode(inputs[n])[0] for n in ("query", "key", *_ROPES))
    queries, keys = len(q), len(k)
    hidden = np.arange(keys) > keys - queries + np.arange(queries)[:, None]
    top, total = (np.empty((1, q.shape[1], queries, 1), np.float32) for _ in range(2))
    for h in range(q.shape[1]):
        scores = scale * (q[:, h] @ k[:, h].T + q_rope[:, h] @ k_rope[:, h].T)
        scores[hidden] = -np.inf
        top[0, h, :, 0] = scores.max(-1)
        total[0, h, :, 0] = np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)
    return top, total


_ROPES = ("query_rope", "key_rope")


def _shape(x):
    return (x[1] if isinstance(x, tuple) else x).shape


def _width(x):
    return _shape(x)[-1]


def loss_cases():
    """In float32 and bfloat16; the attention of the sparse one is measured beside it."""

    def case(name, dtype, operator, build, peer, sizes, **given):
        torch = peer and (lambda forward, _: peer(forward))
        fields = (f"{name}_{dtype}", operator, build, dtype, "forward", *sizes)
        return SpeedCase(*fields, peers=(), torch=torch, **given)

    def reader(tokens, dtype, _):
        return sparse_attention(tokens, dtype).forward

    sparse = ("SparseLightningIndexerGradKLLoss", sparse_kl_loss, peers.torch_sparse_kl_loss)
    dense = ("DenseLightningIndexerGradKLLoss", dense_kl_loss, peers.torch_dense_kl_loss)
    log_sum = ("DenseLightningIndexerSoftmaxLse", softmax_lse, None)
    compared = {"attention": reader, "baseline_limit": 0.8}
    return [
        one
        for dtype in ("float32", "bfloat16")
        for one in (
            case("sparse_kl_loss", dtype, *sparse, (32768, 2048), **compared),
            case("dense_kl_loss", dtype, *dense, (8192, 1024)),
            case("softmax_lse", dtype, *log_sum, (8192, 1024)),
        )
    ]
