"""Says which of the faults planted in copies of the kernels the tests find.

`python -m tests.ascendc.planted [-j 2] [-s 1000] [KERNEL [NAME ...]]`: of all kernels, or of one,
or some of its faults. Each is one changed text; the copy is compiled for one data type and judged
by checks that are the kernel's tests, the quick ones first.
"""

import argparse
import sys

from .judge import FaultError, judge
from .kernels import KERNELS


def main(kernels, names, at_a_time, most_seconds):
    """Print what finds each of the faults; how many nothing finds, or are none."""
    failed = 0
    for kernel in kernels:
        chosen, missed, broken = names or list(kernel.faults), [], []
        for name, seconds, found in judge(kernel, chosen, at_a_time, most_seconds):
            if isinstance(found, FaultError):
                text = f"ERROR: {found}"
                broken.append(name)
            elif found:
                text = ": ".join(found)[:150].replace("\n", " ")
            elif name in kernel.harmless:
                text = "changes nothing: " + kernel.harmless[name]
            else:
                text = "NOT FOUND"
                missed.append(name)
            print(f"{kernel.name}, {name}: {text} ({seconds:.0f} s)", flush=True)
        harmless = len(set(chosen).intersection(kernel.harmless))
        count = len(chosen) - harmless - len(broken)
        found = f"{count - len(missed)} of {count} found, {harmless} change nothing"
        print(f"{kernel.name}: {found}; not found: {missed}; no faults: {broken}", flush=True)
        failed += len(missed) + len(broken)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.ascendc.planted")
    parser.add_argument("-j", type=int, default=2, help="how many at a time")
    parser.add_argument(
        "-s", type=float, default=1000, help="seconds of checks, as the kernel passes them"
    )
    parser.add_argument("kernel", nargs="?", choices=KERNELS)
    parser.add_argument("name", nargs="*", help="of a fault of the kernel")
    given = parser.parse_args()
    every = [KERNELS[given.kernel]] if given.kernel else KERNELS.values()
    sys.exit(1 if main(every, given.name, given.j, given.s) else 0)
