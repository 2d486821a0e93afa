"""Runs the cases and prints what they find."""

import sys

from . import machine, report
from .isolate import in_process, isolated
from .speed import Settings

NEEDS = "The figures hold if nothing else is running"
REPEATS = 2


def _steadiest(case, result, measure, settings, out):
    """The result, or that of another try where a target is missed and the rounds disagree."""
    for _ in range(REPEATS):
        if not (result.missed() and result.unsteady()):
            break
        print(
            f"{case.name}: {'; '.join(result.missed())}, but its rounds disagree by "
            f"{result.spread:.0%}: measured again",
            file=out,
            flush=True,
        )
        problem, again = measure(case, settings)
        if problem is None and again.spread < result.spread:
            result = again
    return result


def run(cases, quick=False, csv=None, png=None, one_process=False, out=sys.stdout):
    """Check and run the cases; returns the names of those whose operator is wrong."""
    if png:
        from . import plot

        plot.require()
    settings = Settings(quick=quick)
    measure = in_process if one_process else isolated
    description = machine.describe()
    print(report.machine_line(description), file=out, flush=True)
    print(f"{NEEDS}; load average now: {machine.load()}", file=out, flush=True)
    results, refused, kind = [], [], None
    for case in cases:
        problem, result = measure(case, settings)
        if problem is not None:
            refused.append(case.name)
            print(f"{case.name}: REFUSED: {problem}", file=out, flush=True)
            continue
        result = _steadiest(case, result, measure, settings, out)
        if result.kind != kind:
            kind = result.kind
            print(f"\n{report.header(kind)}", file=out)
        print(report.line(result), file=out, flush=True)
        results.append(result)
    print(f"\n{report.summary(results, refused)}", file=out)
    print(f"load average at the end: {machine.load()}", file=out, flush=True)
    if csv:
        report.write_csv(csv, results, description)
    if png:
        plot.write_png(png, results, description)
    return refused
