"""Tests that `make test` leaves out: `make soak MINUTES=60 SEED=1`; or by hand:
`python -m tests.soak MINUTES SEED`.

First the tests marked `soak`, ThreadSanitizer over all operators and every planted fault, which
take as long as they take; then MINUTES of random configurations: of the kernels through the binding
and in MindSpore, of the Ascend kernels on the twin, and of the kernels without Python under
sanitizers and on other processors. A seed gives the same configurations again. Failures are printed
with their seeds; the exit code is 1 if there were any.
"""

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Programs of their own, which end with 0 if all is well.
PROGRAMS = {
    "marked tests": ("pytest", "-q", "-n", "auto", "--dist", "loadscope", "-m", "soak"),
    "ThreadSanitizer": ("tests.native.tsan",),
    "planted faults": ("tests.ascendc.planted",),
}
# Seeds of one run; the tests draw theirs from below.
DISTANCE = 10_000_000
BATCH = 40  # calls of one process without Python


def kernels():
    """Yields a function of a number that asserts that the kernels are right there."""
    from tests.kernels.sweep import run_seed

    yield run_seed


def public_functions():
    """In one of MindSpore's modes by turns."""
    from tests.ops.test_random_calls import test_random_call

    yield test_random_call


def ascend():
    """One after the other of the operators' kernels on the twin."""
    from tests.ascendc.sweep import OPERATORS

    for swept in OPERATORS.values():
        runner = swept.runner()
        yield lambda number, swept=swept, runner=runner: swept.run(runner, number)


def without_python():
    """In every form of the native test program and on each of its instruction sets."""
    replay = importlib.import_module("tests.native.test_replay")
    for form in (*replay.FORMS, *replay.SOAKED):
        if packages := replay.builds.missing(form):
            print(f"the {form.name} form is left out: apt-get install {' '.join(packages)}")
            continue
        program = replay.builds.compile_replay(form)
        for isa in replay.expected_isas(form):
            yield lambda number, at=(form, program, isa): _replayed(replay, number, *at)


def _replayed(replay, number, form, program, isa):
    numbers = range(number * BATCH, (number + 1) * BATCH)
    cases = [replay.make_case(one) for one in numbers]
    if isa == replay.MODEL:
        cases = replay.modelled(cases)
    with tempfile.TemporaryDirectory() as folder:
        failures = replay.wrong(form, program, cases, isa, Path(folder))
    assert not failures, "\n".join(failures)


DRAWN = {
    "kernels": kernels,
    "public functions": public_functions,
    "Ascend kernels": ascend,
    "kernels without Python": without_python,
}


def drawn(name, seconds, first):
    """Run configurations from a number on until the time is over; the number of failures."""
    checks = list(DRAWN[name]())
    failures, end = 0, time.monotonic() + seconds
    for number in count(first):
        for check in checks:
            if time.monotonic() >= end:
                print(f"{name}: {number - first} configurations, {failures} failed", flush=True)
                return failures
            try:
                check(number)
            except Exception as error:  # the run goes on and counts
                failures += 1
                print(f"{name}, number {number}: {type(error).__name__}: {error}", flush=True)


def program(name):
    """Run one of the programs; 1 if it fails."""
    print(f"{name}: python -m {' '.join(PROGRAMS[name])}", flush=True)
    return int(subprocess.run([sys.executable, "-m", *PROGRAMS[name]], cwd=ROOT).returncode != 0)


def main(minutes, seed, only=()):
    """Run all parts, or those named; the number of parts and configurations that failed."""
    parts = only or [*PROGRAMS, *DRAWN]
    failures = sum(program(name) for name in parts if name in PROGRAMS)
    random = [name for name in parts if name in DRAWN]
    for name in random:
        failures += drawn(name, 60 * minutes / len(random), seed * DISTANCE)
    print(f"{failures} failures with seed {seed}")
    return failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("seed", type=int)
    parser.add_argument("--only", action="append", choices=[*PROGRAMS, *DRAWN], default=[])
    given = parser.parse_args()
    sys.exit(1 if main(given.minutes, given.seed, given.only) else 0)
