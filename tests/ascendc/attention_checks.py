"""Checks of every call of an attention kernel on the twin."""

from tests.common.cases import compare

from .launch import raw

CORES = (1, 2, 7, 24)  # cube cores
SEEDS = (0, 1, 2)
# Calls of a named case.
CALLS = [(2, 0), (24, 1)]


def calls_of(number):
    """Two numbers of cores, each in another interleaving, for a random configuration."""
    cores, other = CORES[number // 3 % 4], CORES[(number // 3 + 1 + number % 3) % 4]
    return [(cores, SEEDS[number % 3]), (other, SEEDS[(number + 1) % 3])]


def same_bits(a, b):
    """True if two lists of outputs are equal to the bit."""
    return all(raw(x).tobytes() == raw(y).tobytes() for x, y in zip(a, b, strict=True))


def check_call(runner, case, calls):
    """Right, without a warning, and the same bits for every (cores, seed) of `calls`."""
    first = None
    for cores, seed in calls:
        outputs, counts = runner.run(case, cores, seed)
        assert counts.warnings == 0, f"{case}: {counts.warnings} warnings"
        if first is None:
            first = outputs
            compare(case, outputs)
        assert same_bits(first, outputs), f"{case}: other bits on {cores} cores, seed {seed}"
