"""Cases of the memory of a layer's training step, each in a process of its own."""

import json
import sys
import time
from dataclasses import dataclass

import mindspore as ms
import numpy as np

from mindspore_nsa import _native
from mindspore_nsa.nn import NativeSparseAttention, NSAConfig
from mindspore_nsa.nn.gates import BRANCHES

from . import branches, check, machine
from .layer import HIDDEN, Gradient, Sum
from .memory import WARM_UP_TOKENS
from .result import Result

RATIO_LIMIT = 1.5
STATISTICS = 2 * 8 * 4  # bytes of a row's maximum and sum


@dataclass(frozen=True)
class LayerMemoryCase:
    """Forward and backward of one layer, float32 parameters, in a compiled graph."""

    name: str
    dtype: str
    tokens: int = 32768
    quick_tokens: int = 2048

    kind = "layer memory"
    operator = "NativeSparseAttention"
    direction = "both"

    def problem(self):
        """Why one of the layer's operators cannot be measured, or None."""
        builds = (branches.compression, *branches.BRANCHES)
        return check.first_problem(builds, self.dtype, self.direction)

    def run(self, settings):
        """A `Result`."""
        from .isolate import RETURN_FREED_MEMORY, run_module

        tokens = self.quick_tokens if settings.quick else self.tokens
        heads, kv_heads, dim = branches.HEADS, branches.KV_HEADS, branches.DIM
        child = run_module(__name__, self.name, tokens, **RETURN_FREED_MEMORY)
        child.check_returncode()
        found = json.loads(child.stdout.splitlines()[-1])
        return Result.of(
            self,
            tokens=tokens,
            shape=f"S={tokens} hidden={HIDDEN} N={heads}/{kv_heads} D={dim}",
            seconds=found["seconds"],
            bytes=found["operand_bytes"],
            scratch_bytes=found["scratch_bytes"],
            resident_bytes=found["resident_bytes"],
            resident_ratio=found["resident_bytes"] / found["operand_bytes"],
            # Checked at the size of a whole run: with few tokens parameters dominate.
            ratio_limit=None if settings.quick else RATIO_LIMIT,
        )

    def measure(self, tokens):
        """In a fresh process: bytes of operands and of scratch, and the growth of VmHWM."""
        ms.set_context(mode=ms.GRAPH_MODE)
        config = NSAConfig(HIDDEN, branches.HEADS, branches.KV_HEADS, branches.DIM)
        step = Gradient(Sum(NativeSparseAttention(config)))
        self._seconds(step, WARM_UP_TOKENS)
        before = machine.status_bytes("VmRSS")
        _native.reset_scratch_high_water()
        seconds = self._seconds(step, tokens)
        return {
            "seconds": seconds,
            "operand_bytes": sum(operands(config, tokens, self.dtype, step.weights).values()),
            "scratch_bytes": _native.scratch_high_water(),
            "resident_bytes": machine.status_bytes("VmHWM") - before,
        }

    def _seconds(self, step, tokens):
        drawn = np.random.default_rng(0).standard_normal((1, tokens, HIDDEN), np.float32)
        x = ms.Tensor(drawn).astype(getattr(ms, self.dtype))
        # Drawing took more memory than the input does.
        machine.reset_peak()
        begin = time.perf_counter()
        value, (_, gradients) = step(x)
        value.asnumpy()
        gradients[-1].asnumpy()
        return time.perf_counter() - begin


def operands(config, tokens, dtype, parameters):
    """Name -> bytes of what a step must hold: all that the backward reads, in the step's dtype."""
    size = 4 if dtype == "float32" else 2
    rows = tokens * config.num_heads
    key_rows = tokens * config.num_kv_heads * BRANCHES
    return {
        "input, output and their gradients": 4 * tokens * config.hidden_size * size,
        "parameters and their gradients": 2 * sum(p.size * p.itemsize for p in parameters),
        "queries of the branches": BRANCHES * rows * config.head_dim * size,
        "keys and values": key_rows * (config.head_dim + config.value_head_dim) * size,
        "outputs of the branches": BRANCHES * rows * config.value_head_dim * size,
        "their maxima and sums": BRANCHES * rows * STATISTICS,
        "the branches' sum": rows * config.value_head_dim * size,
        "gates": BRANCHES * rows * 4,
        "indices": tokens * config.num_kv_heads * config.select_block_count * 4,
    }


def layer_memory_cases():
    """A float32 step and one of 16 bits."""
    return [LayerMemoryCase(f"layer_memory_{dtype}", dtype) for dtype in ("float32", "bfloat16")]


def main():
    name, tokens = sys.argv[1:]
    case = next(case for case in layer_memory_cases() if case.name == name)
    print(json.dumps(case.measure(int(tokens))))


if __name__ == "__main__":
    main()
