"""The command: runs each operator once per dtype and prints what a report needs."""

import argparse
import sys
import time
import traceback

from mindspore_nsa._config import TARGETS, resolve_target, set_target, show_config
from mindspore_nsa._version import __version__
from mindspore_nsa.testing.case import Case, compare

from .calls import CHECKS
from .device import Device

DTYPES = ("float32", "float16", "bfloat16")


def judge(case, outputs):
    """None where the outputs are right, else what is wrong."""
    try:
        compare(case, outputs) if isinstance(case, Case) else case.compare(outputs)
    except AssertionError as error:
        return str(error)
    return None


def check(function, dtype):
    """(native operators that agree, those that do not with the reason, seconds of the second run).

    The first run compiles, so the second is the one that is timed.
    """
    right, wrong, seconds = [], [], 0.0
    for again in (False, True):
        begin = time.perf_counter()
        found = list(function(Device(dtype)))
        seconds = time.perf_counter() - begin
        if again:
            break
        for case, outputs in found:
            reason = judge(case, outputs)
            wrong.append((case.op, reason)) if reason else right.append(case.op)
    return right, wrong, seconds


def run(dtypes):
    """Print a line for each operator and dtype; the numbers of right and of wrong results."""
    right, wrong, reasons = 0, 0, []
    print(f"{'operator':<30}{'dtype':<10}{'verdict':<9}{'ms':>8}  native operators")
    for function in CHECKS:
        for dtype in dtypes:
            try:
                fine, faults, seconds = check(function, dtype)
            except Exception:
                wrong += 1
                print(f"{function.__name__:<30}{dtype:<10}{'FAILED':<9}")
                traceback.print_exc(file=sys.stdout)
                continue
            right, wrong = right + len(fine), wrong + len(faults)
            verdict = "DIFFERS" if faults else "agrees"
            names = ", ".join([*fine, *(f"{op} (wrong)" for op, _ in faults)])
            print(f"{function.__name__:<30}{dtype:<10}{verdict:<9}{1e3 * seconds:>8.1f}  {names}")
            reasons += [reason for _, reason in faults]
    for reason in reasons:
        print(f"\n{reason}")
    return right, wrong


def main():
    """Returns the exit code: 0 where every result agrees."""
    parser = argparse.ArgumentParser(
        prog="python -m mindspore_nsa.check",
        description="Run every operator that has an Ascend kernel once, with its gradient, and "
        "compare it with its float64 definition by the rule of the tests.",
    )
    parser.add_argument("--device", choices=("CPU", "Ascend"), help="default: MindSpore's own")
    parser.add_argument("--target", choices=TARGETS, help="default: by the device")
    parser.add_argument("--graph", action="store_true", help="in GRAPH_MODE, not in PyNative mode")
    chosen = parser.parse_args()
    import mindspore

    if chosen.device:
        mindspore.set_device(chosen.device)
    if chosen.target:
        set_target(chosen.target)
    mindspore.set_context(mode=mindspore.GRAPH_MODE if chosen.graph else mindspore.PYNATIVE_MODE)
    show_config()
    device = mindspore.get_context("device_target")
    target = resolve_target(chosen.target, device)
    print(f"{'device':<16}{device}\n")
    # The Ascend kernels have no float32.
    dtypes = DTYPES if target == "cpu" else DTYPES[1:]
    right, wrong = run(dtypes)
    mode = "graph" if chosen.graph else "PyNative"
    print(
        f"\nreport: mindspore_nsa {__version__}, MindSpore {mindspore.__version__}, device "
        f"{device}, target {target}, {mode} mode, {'/'.join(dtypes)}: {right} results agree, "
        f"{wrong} do not"
    )
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
