"""Checks of every call of a kernel on the twin."""

import numpy as np

from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import ULP
from tests.common.cases import OUTPUTS, compare

from .runner import same_bits, values

CORES = (1, 7, 24, 48)
SEEDS = (0, 1, 2)


def check_call(runner, case, cores, seeds=SEEDS, more_cores=()):
    """Right, without a warning, and the same bits for every seed and number of cores."""
    first = None
    for count, seed in [*((cores, seed) for seed in seeds), *((count, 0) for count in more_cores)]:
        outputs, counts = runner.run(case, count, seed)
        assert counts.warnings == 0, f"{case}: {counts.warnings} warnings"
        if first is None:
            first = outputs
            compare(case, outputs)
        assert same_bits(first, outputs), f"{case}: other bits on {count} cores, seed {seed}"
    return first


def check_agreement(case, outputs):
    """The CPU target's outputs differ by rounding: each is within an ulp or so of the exact one."""
    cpu = _native.run(case.op, case.inputs, case.attrs, 1)
    for name, twin, other in zip(OUTPUTS[case.op], values(outputs), values(cpu), strict=True):
        twin, other = np.asarray(twin, np.float64), np.asarray(other, np.float64)
        scale = np.abs(other).max(initial=0)
        worst = np.abs(twin - other).max(initial=0)
        assert worst <= 2 * ULP[case.dtype] * scale, f"{case}\n{name}: differs by {worst}"
