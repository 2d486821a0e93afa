"""`python -m benchmarks.lengths`: time and memory of attention over the length of the text.

Native Sparse Attention, all of it (compression, its attention, the selected blocks, the window,
the gates), beside dense attention: this package's, PyTorch's, and one made of MindSpore's
operators. What is measured already stays, so that a run that was stopped goes on.
benchmarks/tables.py and figures.py make the tables and curves of the pages of it.
"""

import argparse
import csv
import json
import math
import sys
from pathlib import Path

from . import machine

ROOT = Path(__file__).resolve().parents[1]
CSV = ROOT / "benchmarks" / "results" / "intel_xeon_avx512" / "lengths.csv"
MODULE = "benchmarks.lengths"  # also where it is __main__
LENGTHS = tuple(1024 * 2**i for i in range(7))
NSA = "nsa"
DENSE = ("flash_attention_score", "torch", "mindspore")
# Up to this length every dense attention is measured; beyond it one that took so much longer than
# the fastest is not asked at twice the length.
EVERY, HOPELESS = 4096, 1.5
COLUMNS = ("tokens", "attention", "forward_seconds", "both_seconds", "bytes", "calls", "shape")
# Seconds that the calls of one function may take after the first; one call is always made.
BUDGET = 6.0
CALLS = 5


def read(path):
    """The rows of a file, with numbers."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["tokens"] = int(row["tokens"])
        for name in ("forward_seconds", "both_seconds", "bytes"):
            row[name] = float(row[name])
    return rows


def write(path, rows):
    """The rows by length, and by attention as named above."""
    order = (NSA, *DENSE)
    rows = sorted(rows, key=lambda row: (row["tokens"], order.index(row["attention"])))
    with open(path, "w", newline="") as file:
        # Rows that an earlier version measured may lack a column.
        names = dict.fromkeys(name for row in rows for name in row)
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def worth_asking(name, tokens, rows):
    """Whether a dense attention may be the fastest at a length, by what it took at half of it."""
    before = {
        row["attention"]: row["both_seconds"]
        for row in rows
        if row["tokens"] == tokens // 2 and row["attention"] in DENSE
    }
    return (
        tokens <= EVERY
        or not before
        or before.get(name, math.inf) <= HOPELESS * min(before.values())
    )


def _child(*arguments, **environment):
    from .isolate import run_module

    done = run_module(MODULE, *arguments, **environment)
    if done.returncode:
        sys.exit(
            f"benchmarks.lengths: {' '.join(map(str, arguments))} ended with {done.returncode}"
        )
    return json.loads(done.stdout)


def measure(tokens, rows, description, dtype):
    """The rows of one length."""
    from .isolate import RETURN_FREED_MEMORY

    names = [NSA, *(name for name in DENSE if worth_asking(name, tokens, rows))]
    # In one process, in turn: a machine that slows down slows everything that is compared.
    times = _child("--measure", "time", "--tokens", tokens, "--dtype", dtype, "--of", *names)
    found = []
    for name, (forward, both, calls) in times["seconds"].items():
        memory = _child(
            *("--measure", "memory", "--tokens", tokens, "--dtype", dtype, "--of", name),
            **RETURN_FREED_MEMORY,
        )
        values = (tokens, name, f"{forward:.6f}", f"{both:.6f}", memory["bytes"], calls)
        found.append(dict(zip(COLUMNS, (*values, times["shape"]))) | description)
    return found


def main():
    """Measures what is missing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lengths", description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=list(LENGTHS), metavar="N")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    parser.add_argument("--csv", type=Path, default=CSV, help="where the figures are kept")
    parser.add_argument("--again", action="store_true", help="measure what is there already, too")
    parser.add_argument("--measure", choices=("time", "memory"), help=argparse.SUPPRESS)
    parser.add_argument("--of", nargs="+", choices=(NSA, *DENSE), help=argparse.SUPPRESS)
    given = parser.parse_args()
    machine.use_threads(0)
    if given.measure:
        from . import attentions

        function = {"time": attentions.time_all, "memory": attentions.memory_of}[given.measure]
        print(json.dumps(function(given.of, given.tokens[0], given.dtype)))
        return
    description = machine.describe()
    print(" | ".join(f"{name} {value}" for name, value in description.items()), flush=True)
    print(f"{'tokens':>7}  {'attention':24}{'forward s':>11}{'both s':>11}{'MB':>9}", flush=True)
    rows = [] if given.again else read(given.csv)
    for tokens in sorted(given.tokens):
        if not any(row["tokens"] == tokens for row in rows):
            rows += measure(tokens, rows, description, given.dtype)
            given.csv.parent.mkdir(parents=True, exist_ok=True)
            write(given.csv, rows)
            rows = read(given.csv)
        for row in (row for row in rows if row["tokens"] == tokens):
            seconds = f"{row['forward_seconds']:>11.4f}{row['both_seconds']:>11.4f}"
            size = f"{row['bytes'] / 1e6:>9.0f}"
            print(f"{tokens:>7}  {row['attention']:24}{seconds}{size}", flush=True)


if __name__ == "__main__":
    main()
