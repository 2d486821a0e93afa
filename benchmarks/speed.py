"""Cases of one operator's speed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import BFLOAT16

from . import check, peak, peers, probe, timing
from .program import Program
from .result import Result
from .workloads import nbytes


@dataclass(frozen=True)
class Settings:
    """How thorough a run is."""

    quick: bool = False

    @property
    def rounds(self):
        return 3 if self.quick else 7

    @property
    def gemm_size(self):
        return 512 if self.quick else 2048

    @property
    def peer_budget(self):
        return 1.0 if self.quick else 6.0


@dataclass(frozen=True)
class SpeedCase:
    """One operator in one direction at one shape."""

    name: str
    operator: str
    build: Callable  # of workloads.py
    dtype: str
    direction: str
    tokens: int
    quick_tokens: int
    # Least share of the GEMM rate of the dtype, where that can be had, or of the copy bandwidth.
    share: float | None = None
    peers: tuple = ("mindspore", "torch")
    # PyTorch's form of an operator that is no dense attention: a function of case and direction.
    torch: Callable | None = None
    baseline: str | None = None  # dtype whose time is compared
    # Attention that reads what an indexer picks or learns from: a function of tokens, dtype and the
    # operator's outputs that returns its Case. It is the baseline then.
    attention: Callable | None = None
    baseline_limit: float | None = None  # most time, as a multiple of the baseline's

    kind = "speed"

    def problem(self):
        """Why the operator cannot be measured, or None."""
        dtypes = (self.dtype, self.baseline) if self.baseline else (self.dtype,)
        found = (check.problem(self.build, dtype, self.direction) for dtype in dtypes)
        return next((text for text in found if text), None)

    def run(self, settings):
        """A `Result`."""
        tokens = self.quick_tokens if settings.quick else self.tokens
        call = _Call(self.build(tokens, self.dtype), self.direction)
        work, unit = call.workload.work[self.direction], call.workload.unit
        yardstick, yard_work, yard_function = _yardstick(call.workload, settings, self.dtype)
        of_dtype = self.dtype != BFLOAT16 or yardstick.endswith(self.dtype)
        kernel_times = []

        def ours():
            call.program()
            kernel_times.append(probe.kernel_seconds())

        functions = {yardstick: yard_function, "ours": ours}
        shown = {}
        bound = peak.of(self.dtype) if unit == "FLOP" else None
        if bound:
            functions["peak"] = bound.loop
        if self.baseline:
            other = _Call(self.build(tokens, self.baseline), self.direction)
            functions["baseline"] = other.program
        elif self.attention:
            reader = self.attention(tokens, self.dtype, call.outputs)
            functions["baseline"] = Program(reader)
        dense = call.workload.dense() if self.peers else ()
        for name in self.peers:
            try:
                functions[name] = peers.DENSE[name](*dense, call.scale, self.direction)
            except peers.DoesNotFit as reason:
                shown[name] = str(reason)
        if self.torch is not None:
            try:
                functions["torch"] = self.torch(call.workload.forward, self.direction)
            except peers.DoesNotFit as reason:
                shown["torch"] = str(reason)
        compared = functions.keys() & {*self.peers, "torch"}
        if self.direction == "backward" and compared:
            functions["ours, both"] = call.both
        times = timing.interleave(functions, settings.rounds, settings.peer_budget)

        whole = times.get("ours, both", times["ours"])
        for name in compared:
            shown[name] = timing.median_ratio(times[name], whole)
        seconds = timing.median(times["ours"])
        rate = work / yard_work * timing.median_ratio(times[yardstick], times["ours"])
        result = Result.of(
            self,
            shape=call.workload.shape,
            seconds=seconds,
            kernel_seconds=timing.median(kernel_times),
            rate=work / seconds / 1e9,
            unit=f"G{unit}/s",
            share=rate,
            share_of=yardstick,
            share_of_rate=yard_work / timing.median(times[yardstick]) / 1e9,
            share_target=self.share if of_dtype else None,
            **peak.shares(bound, work, seconds, times),
            peers=shown,
            bytes=call.bytes,
            spread=timing.spread(timing.ratios(times[yardstick], times["ours"])),
        )
        if "baseline" in times:
            result.baseline = self.baseline or "attention"
            result.baseline_ratio = timing.median_ratio(times["ours"], times["baseline"])
            # Few tokens leave the attention too little to read.
            asked = self.baseline or not settings.quick
            result.baseline_limit = self.baseline_limit if asked else None
            spread = timing.spread(timing.ratios(times["ours"], times["baseline"]))
            result.spread = max(result.spread, spread)
        return result


class _Call:
    """The programs of one workload and direction."""

    def __init__(self, workload, direction):
        self.workload = workload
        forward = Program(workload.forward)
        self.outputs = outputs = forward.arrays()
        case = workload.forward
        self.program = forward
        self.both = forward
        if direction == "backward":
            case = workload.gradient(outputs)
            backward = Program(case)
            outputs = backward.arrays()
            self.program = backward
            self.both = lambda: (forward(), backward())
        attrs = workload.forward.attrs
        self.scale = attrs.get("scale_value", attrs.get("scalar_value"))
        _native.reset_scratch_high_water()
        self.program()
        scratch = _native.scratch_high_water()
        self.bytes = nbytes(case.inputs) + nbytes(outputs) + scratch


@cache
def _gemm(size, dtype):
    if dtype == BFLOAT16 and peers.torch_module() is not None:
        return f"torch {dtype}", peers.bfloat16_gemm(size)
    return peers.fastest_gemm(size)


def _yardstick(workload, settings, dtype):
    """(name, its work, function) of what a rate is a share of."""
    if workload.unit == "FLOP":
        size = settings.gemm_size
        name, function = _gemm(size, dtype)
        return f"gemm {name}", 2 * size**3, function
    # Copies an array as large as the operator's input: as far beyond the caches as the operator's
    # own tensors. A copy reads and writes.
    size = nbytes(workload.forward.inputs[:1])
    name, function = peers.fastest_copy(size)
    return f"copy {name}", 2 * size, function
