"""Cases of the losses that train an indexer, against the attention that it picks for."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mindspore_nsa import _native
from tests.common.case import INPUTS, Case

from . import check, peers, probe, timing
from .indexers import DIM, sparse_attention
from .program import Program
from .result import Result
from .speed import _gemm
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


def _width(x):
    return (x[1] if isinstance(x, tuple) else x).shape[-1]


@dataclass(frozen=True)
class LossCase:
    """A loss with its gradients, and the forward pass of the attention that teaches."""

    name: str
    build: Callable
    dtype: str
    tokens: int = 32768
    quick_tokens: int = 2048
    limit: float = 0.8  # of the attention's time

    kind = "speed"
    operator = "SparseLightningIndexerGradKLLoss"
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
        attention = Program(sparse_attention(tokens, self.dtype).forward)
        size = settings.gemm_size
        gemm, product = _gemm(size, self.dtype)
        in_kernel, shown = [], {}

        def ours():
            program()
            in_kernel.append(probe.kernel_seconds())

        functions = {"gemm": product, "ours": ours, "attention": attention}
        try:
            functions["torch"] = peers.torch_kl_loss(workload.forward)
        except peers.DoesNotFit as reason:
            shown["torch"] = str(reason)
        times = timing.interleave(functions, settings.rounds, settings.peer_budget)
        if "torch" in times:
            shown["torch"] = timing.median_ratio(times["torch"], times["ours"])
        work, seconds = workload.work["forward"], timing.median(times["ours"])
        _native.reset_scratch_high_water()
        program()
        return Result.of(
            self,
            shape=workload.shape,
            seconds=seconds,
            kernel_seconds=timing.median(in_kernel),
            rate=work / seconds / 1e9,
            unit="GFLOP/s",
            share=work / (2 * size**3) * timing.median_ratio(times["gemm"], times["ours"]),
            share_of=f"gemm {gemm}",
            share_of_rate=2 * size**3 / timing.median(times["gemm"]) / 1e9,
            baseline="attention",
            baseline_ratio=timing.median_ratio(times["ours"], times["attention"]),
            baseline_limit=None if settings.quick else self.limit,
            peers=shown,
            bytes=nbytes(workload.forward.inputs) + _native.scratch_high_water(),
            spread=timing.spread(timing.ratios(times["ours"], times["attention"])),
        )


def loss_cases():
    """In float32 and bfloat16."""
    return [
        LossCase(f"sparse_kl_loss_{dtype}", sparse_kl_loss, dtype)
        for dtype in ("float32", "bfloat16")
    ]
