"""`python -m benchmarks.sizes`: what the sizes of NSA cost at short contexts.

Processor time of NSA, forward and backward, over that of this package's dense attention, which
takes turns with it: medians of the rounds. The table "sizes" is by sizes and length of the text,
"sharing" by how many query heads share a key head. With --csv the figures are also written to a
file, of which benchmarks/tables.py makes the tables of docs/measurements.md.
"""

import argparse
import csv
import statistics
import time
from dataclasses import replace
from pathlib import Path

from mindspore_nsa import _native

from . import attentions, machine
from .attentions import Sizes

BASE = Sizes(heads=8, kv_heads=1, dim=64)
# The paper's, and smaller ones.
SIZES = (
    BASE,
    replace(BASE, select=(64, 8), window=256),
    replace(BASE, select=(32, 8), window=128),
    replace(BASE, select=(32, 4), window=64),
)
# In the second table.
SHARING, TOKENS = SIZES[2], 2048
LENGTHS = (1024, 2048, 4096)
ROUNDS = 5


def keys_of(sizes, tokens):
    """How many keys the last query of a text reads, in all three branches."""
    size, stride = sizes.compress
    windows = max(0, (tokens - size) // stride + 1)
    return windows + min(tokens, sizes.select[0] * sizes.select[1]) + min(tokens, sizes.window)


def processor_seconds(function):
    """Processor time of a call, all processors together."""
    begin = time.process_time()
    function()
    return time.process_time() - begin


def ratios(variants, tokens, dtype, rounds):
    """Median ratios over dense attention with the same heads, in the order of the variants."""
    dense = attentions.flash_attention_score(tokens, "both", dtype, variants[0])
    sparse = [attentions.nsa(tokens, "both", dtype, sizes) for sizes in variants]
    for function in (dense, *sparse):
        function()
    found = [[] for _ in variants]
    for _ in range(rounds):
        for function, values in zip(sparse, found):
            values.append(processor_seconds(function) / processor_seconds(dense))
    return [statistics.median(values) for values in found]


def measured(lengths, dtype, rounds):
    """Rows of both tables, as soon as they are measured."""
    for tokens in lengths:
        yield from _rows("sizes", tokens, SIZES, ratios(SIZES, tokens, dtype, rounds))
    for shared in (1, 2, 4, BASE.heads):
        sizes = replace(SHARING, kv_heads=BASE.heads // shared)
        yield from _rows("sharing", TOKENS, [sizes], ratios([sizes], TOKENS, dtype, rounds))


def _rows(table, tokens, variants, found):
    for sizes, ratio in zip(variants, found):
        block, count = sizes.select
        yield {
            **{"table": table, "tokens": tokens},
            **{"heads": sizes.heads, "kv_heads": sizes.kv_heads, "head_dim": sizes.dim},
            **{"blocks": count, "block_size": block, "window": sizes.window},
            **{"keys": keys_of(sizes, tokens), "ratio": f"{ratio:.4f}"},
        }


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=list(LENGTHS), metavar="N")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--csv", type=Path, help="write the figures to a file")
    given = parser.parse_args()
    if given.csv and not given.csv.parent.is_dir():
        parser.error(f"--csv {given.csv}: must be a file in a folder that exists")
    machine.use_threads(0)
    description = machine.describe()
    print(" | ".join(f"{name} {value}" for name, value in description.items()))
    print(f"{given.dtype}, {BASE.heads} heads of {BASE.dim}, {_native.num_threads()} threads")
    rows = []
    for row in measured(given.tokens, given.dtype, given.rounds):
        if not rows:
            print(" ".join(f"{name:>10}" for name in row))
        print(" ".join(f"{value:>10}" for value in row.values()), flush=True)
        rows.append(row | {"dtype": given.dtype} | description)
    if given.csv:
        with open(given.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            # Sorted like the table: by sizes, then by length.
            sizes = [row for row in rows if row["table"] == "sizes"]
            sizes.sort(key=lambda row: [s.window for s in SIZES].index(row["window"]))
            writer.writerows(sizes + [row for row in rows if row["table"] == "sharing"])


if __name__ == "__main__":
    main()
