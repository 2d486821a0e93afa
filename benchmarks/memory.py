"""Cases of an operator's memory, forward and backward, each in a process of its own."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mindspore_nsa import _native

from . import machine, workloads
from .result import Result
from .workloads import nbytes

RATIO_LIMIT = 3.0
HEADS, DIM = 4, 64
WARM_UP_TOKENS = 300


@dataclass(frozen=True)
class MemoryCase:
    """Forward and backward of one attention operator."""

    name: str
    operator: str
    build: Callable  # of workloads.py, with the same name
    dtype: str
    group: int
    tokens: int = 65536
    quick_tokens: int = 2048

    kind = "memory"
    direction = "both"

    def _build(self, tokens, dtype):
        sizes = {"heads": HEADS, "kv_heads": HEADS // self.group, "dim": DIM}
        return self.build(tokens, dtype, **sizes)

    def problem(self):
        """Why the operator cannot be measured, or None."""
        from . import check

        return check.problem(self.build, self.dtype, "backward")

    def run(self, settings):
        """A `Result`."""
        from .isolate import RETURN_FREED_MEMORY, run_module

        tokens = self.quick_tokens if settings.quick else self.tokens
        child = run_module(__name__, self.name, tokens, **RETURN_FREED_MEMORY)
        child.check_returncode()
        found = json.loads(child.stdout)
        tensors = found["tensor_bytes"]
        return Result.of(
            self,
            shape=f"T={tokens} N={HEADS}/{HEADS // self.group} D={DIM}",
            seconds=found["seconds"],
            bytes=tensors + found["scratch_bytes"],
            scratch_bytes=found["scratch_bytes"],
            resident_bytes=found["resident_bytes"],
            ratio=(tensors + found["scratch_bytes"]) / tensors,
            resident_ratio=found["resident_bytes"] / tensors,
            ratio_limit=RATIO_LIMIT,
        )

    def measure(self, tokens):
        """In a fresh process: the bytes of the tensors, of scratch, and the growth of VmHWM.

        The binding is called without MindSpore, whose memory pool would hide what is used.
        """
        self._measured(self._build(WARM_UP_TOKENS, self.dtype))
        before = machine.status_bytes("VmRSS")
        workload = self._build(tokens, self.dtype)
        # Drawing the inputs took more memory than they need.
        machine.reset_peak()
        return self._measured(workload, before)

    def _measured(self, workload, before=0):
        _native.reset_scratch_high_water()
        begin = time.perf_counter()
        outputs = _run(workload.forward)
        gradient = workload.gradient(outputs)
        gradients = _run(gradient)
        seconds = time.perf_counter() - begin
        peak = machine.status_bytes("VmHWM")
        # The gradient's inputs hold the forward's and its outputs; an index list is the forward's.
        tensors = _distinct(workload.forward.inputs + outputs + gradient.inputs + gradients)
        return {
            "seconds": seconds,
            "tensor_bytes": nbytes(tensors),
            "scratch_bytes": _native.scratch_high_water(),
            "resident_bytes": peak - before,
        }


def _run(case):
    return list(_native.run(case.op, case.inputs, case.attrs))


def _distinct(tensors):
    """Every array once."""
    arrays = (x[1] if isinstance(x, tuple) else x for x in tensors if x is not None)
    return list({id(x): x for x in arrays if isinstance(x, np.ndarray)}.values())


def memory_cases():
    """Every attention operator, two groupings, two dtypes."""
    builds = {
        "FlashAttentionScore": workloads.flash,
        "NsaSelectedAttention": workloads.selected,
        "NsaCompressAttention": workloads.compress_attention,
    }
    return [
        MemoryCase(f"memory_{build.__name__}_{dtype}_group{group}", operator, build, dtype, group)
        for operator, build in builds.items()
        for dtype in ("float32", "bfloat16")
        for group in (1, 4)
    ]


def main():
    name, tokens = sys.argv[1:]
    case = next(case for case in memory_cases() if case.name == name)
    print(json.dumps(case.measure(int(tokens))))


if __name__ == "__main__":
    main()
