"""Cases of the losses that train an indexer, against the attention that it picks for."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mindspore_nsa import _native
from mindspore_nsa.testing.case import INPUTS, Case
from mindspore_nsa.testing.dtypes import decode

from . import check, peers, probe, timing
from .indexers import DIM, sparse_attention
from .program import Program
from .result import Result
from .speed import SpeedCase, _gemm
from .workloads import Workload, _draw, nbytes


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


@dataclass(frozen=True)
class LossCase:
    """A loss with its gradients, and, of the sparse one, the forward pass of its attention."""

    name: str
    operator: str
    build: Callable
    peer: Callable  # of its forward case
    dtype: str
    tokens: int
    quick_tokens: int
    limit: float | None = None  # of the attention's time

    kind = "speed"
    direction = "forward"
    share = baseline_limit = None

    def problem(self):
        """Why the operator cannot be measured, or None."""
        return check.problem(self.build, self.dtype, self.direction)

    def run(self, settings):
        """A `Result`."""
        tokens = self.quick_tokens if settings.quick else self.tokens
        workload = self.build(tokens, self.dtype)
        program = Program(workload.forward)
        size = settings.gemm_size
        gemm, product = _gemm(size, self.dtype)
        in_kernel, shown = [], {}

        def ours():
            program()
            in_kernel.append(probe.kernel_seconds())

        functions = {"gemm": product, "ours": ours}
        if self.limit:
            functions["attention"] = Program(sparse_attention(tokens, self.dtype).forward)
        try:
            functions["torch"] = self.peer(workload.forward)
        except peers.DoesNotFit as reason:
            shown["torch"] = str(reason)
        times = timing.interleave(functions, settings.rounds, settings.peer_budget)
        if "torch" in times:
            shown["torch"] = timing.median_ratio(times["torch"], times["ours"])
        work, seconds = workload.work["forward"], timing.median(times["ours"])
        _native.reset_scratch_high_water()
        program()
        yardstick = "attention" if self.limit else "gemm"
        result = Result.of(
            self,
            shape=workload.shape,
            seconds=seconds,
            kernel_seconds=timing.median(in_kernel),
            rate=work / seconds / 1e9,
            unit="GFLOP/s",
            share=work / (2 * size**3) * timing.median_ratio(times["gemm"], times["ours"]),
            share_of=f"gemm {gemm}",
            share_of_rate=2 * size**3 / timing.median(times["gemm"]) / 1e9,
            peers=shown,
            bytes=nbytes(workload.forward.inputs) + _native.scratch_high_water(),
            spread=timing.spread(timing.ratios(times["ours"], times[yardstick])),
        )
        if self.limit:
            result.baseline = "attention"
            result.baseline_ratio = timing.median_ratio(times["ours"], times["attention"])
            result.baseline_limit = None if settings.quick else self.limit
        return result


def loss_cases():
    """In float32 and bfloat16."""
    sparse = ("SparseLightningIndexerGradKLLoss", sparse_kl_loss, peers.torch_sparse_kl_loss)
    dense = ("DenseLightningIndexerGradKLLoss", dense_kl_loss, peers.torch_dense_kl_loss)
    log_sum = ("DenseLightningIndexerSoftmaxLse", softmax_lse)
    return [
        case
        for dtype in ("float32", "bfloat16")
        for case in (
            LossCase(f"sparse_kl_loss_{dtype}", *sparse, dtype, 32768, 2048, limit=0.8),
            LossCase(f"dense_kl_loss_{dtype}", *dense, dtype, 8192, 1024),
            SpeedCase(f"softmax_lse_{dtype}", *log_sum, dtype, "forward", 8192, 1024, peers=()),
        )
    ]
