"""Random configurations through the binding: every seed an operator, dtype, mode, shapes and
values, and by turns every instruction set of the machine and 1 to 4 threads.

`make sweep N=20000`, or python -m tests.kernels.sweep N [FIRST_SEED]; failures are printed with
their seeds, and the exit code is 1 if there were any.
"""

import sys
import time
from contextlib import contextmanager

from mindspore_nsa import _native
from tests.common.cases import compare, make_case

# The seeds of the tests; a longer sweep starts after them.
TESTED = 1000


@contextmanager
def instruction_set(name):
    """Use an instruction set, and then the one before it again."""
    before = _native.isa()
    _native.set_isa(name)
    try:
        yield
    finally:
        _native.set_isa(before)


def run_seed(seed):
    """Assert that the kernels get the configuration of a seed right."""
    isas = _native.available_isas()
    case = make_case(seed)
    isa, threads = isas[seed % len(isas)], 1 + seed // len(isas) % 4
    case.name += f" on {isa} with {threads} threads"
    with instruction_set(isa):
        outputs = _native.run(case.op, case.inputs, case.attrs, num_threads=threads)
    compare(case, outputs)


def main(count, first=TESTED):
    """Run `count` seeds; the number of failures."""
    failures, started = 0, time.monotonic()
    told = started
    for seed in range(first, first + count):
        try:
            run_seed(seed)
        except Exception as error:  # the sweep goes on and counts
            failures += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"{seed - first + 1} of {count}, {told - started:.0f} s", flush=True)
    print(f"{count - failures} passed, {failures} failed")
    return failures


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
