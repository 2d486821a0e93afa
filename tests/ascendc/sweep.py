"""Random configurations of the operators in Ascend C, on the twin: every seed an operator, dtype,
shapes and values, on a number of cores by turns, in three interleavings, which give the same bits.

`make sweep-ascend N=300`, or python -m tests.ascendc.sweep N [OPERATOR ...]: N configurations of
each operator, or of those named; failures are printed with their seeds, and the exit code is 1 if
there were any.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from . import (
    attention_cases,
    attention_checks,
    builds,
    cache_cases,
    cache_step_cases,
    checks,
    compress_attention_cases,
    compress_cases,
    selected_cases,
)

# The seeds of the tests are below this one, with which a sweep starts.
TESTED = 320


@dataclass(frozen=True)
class Swept:
    """An operator: its kernel, and the case of a seed."""

    runner: Callable
    make: Callable
    on_cubes: bool = True
    check: Callable = attention_checks.check_call  # of a kernel on cubes

    def run(self, runner, seed):
        """Assert that the kernel gets the configuration of a seed right."""
        case = self.make(seed)
        if not self.on_cubes:
            cores = checks.CORES[seed % len(checks.CORES)]
            checks.check_call(runner, case, cores, more_cores=checks.CORES[:1])
            return
        cores = attention_checks.CORES
        calls = [(cores[seed % len(cores)], order) for order in attention_checks.SEEDS]
        self.check(runner, case, [*calls, (cores[seed // 4 % len(cores)], 0)])


OPERATORS = {
    "NsaCompress": Swept(
        builds.runner, lambda seed: compress_cases.make_case("NsaCompress", seed), on_cubes=False
    ),
    "NsaCompressGrad": Swept(
        builds.runner,
        lambda seed: compress_cases.make_case("NsaCompressGrad", seed),
        on_cubes=False,
    ),
    "NsaCompressWithCache": Swept(
        builds.cache_runner, cache_cases.make_compress_with_cache, on_cubes=False
    ),
    "NsaSelectedAttentionInfer": Swept(
        builds.selected_infer_runner, cache_cases.make_selected_infer
    ),
    "NsaCompressAttentionInfer": Swept(
        builds.compress_infer_runner, cache_cases.make_compress_infer
    ),
    "NsaDecode": Swept(builds.decode_runner, cache_cases.make_decode),
    "NsaCacheStep": Swept(
        builds.cache_step_runner,
        cache_step_cases.make_cache_step,
        check=cache_step_cases.check_steps,
    ),
    "FlashAttentionScore": Swept(builds.flash_runner, attention_cases.make_flash_case),
    "FlashAttentionScoreGrad": Swept(builds.flash_runner, attention_cases.make_grad_case),
    "NsaCompressAttention": Swept(
        builds.compress_attention_runner, compress_attention_cases.make_case
    ),
    "NsaSelectedAttention": Swept(builds.selected_runner, selected_cases.make_selected_case),
    "NsaSelectedAttentionGrad": Swept(
        builds.selected_runner, selected_cases.make_selected_grad_case
    ),
}


def main(count, names=(), first=TESTED):
    """Run `count` seeds of every operator, or of those named; the number of failures."""
    unknown = set(names).difference(OPERATORS)
    if unknown:
        raise ValueError(f"no operator {', '.join(sorted(unknown))}; there are {list(OPERATORS)}")
    failures, started, runners = 0, time.monotonic(), {}
    told = started
    for name in names or OPERATORS:
        swept = OPERATORS[name]
        runner = runners.setdefault(swept.runner, None) or swept.runner()
        runners[swept.runner] = runner
        failed = 0
        for seed in range(first, first + count):
            try:
                swept.run(runner, seed)
            except Exception as error:  # the sweep goes on and counts
                failed += 1
                print(f"{name} seed {seed}: {type(error).__name__}: {error}", flush=True)
            if time.monotonic() - told > 10:
                told = time.monotonic()
                done = f"{seed - first + 1} of {count}"
                print(f"{name}: {done}, {told - started:.0f} s", flush=True)
        seconds = time.monotonic() - started
        print(f"{name}: {count - failed} passed, {failed} failed, {seconds:.0f} s", flush=True)
        failures += failed
    return failures


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]), sys.argv[2:]) else 0)
