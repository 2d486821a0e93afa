"""`python -m benchmarks.sizes`: what the sizes of NSA cost at short contexts.

Processor time of NSA, forward and backward, over that of this package's dense attention, which
takes turns with it: medians of the rounds. One table by sizes and length of the text, one by how
many query heads share a key head; rows as docs/measurements.md has them.
"""

import argparse
import statistics
import time
from dataclasses import replace

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
    """What a call takes of all processors together."""
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


def row(*cells):
    """A row of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main():
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--tokens", type=int, nargs="+", default=list(LENGTHS), metavar="N")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    given = parser.parse_args()
    machine.use_threads(0)
    print(" | ".join(f"{name} {value}" for name, value in machine.describe().items()))
    print(f"{given.dtype}, {BASE.heads} heads of {BASE.dim}, {_native.num_threads()} threads")
    times = {n: ratios(SIZES, n, given.dtype, given.rounds) for n in given.tokens}
    row("blocks", "window", *(f"{n:,} tokens" for n in given.tokens))
    for place, sizes in enumerate(SIZES):
        block, count = sizes.select
        cells = (f"{keys_of(sizes, n)} keys, {times[n][place]:.2f}" for n in given.tokens)
        row(f"{count} of {block}", sizes.window, *cells)
    row("query heads of a key head", f"over dense attention, {TOKENS:,} tokens")
    for shared in (1, 2, 4, BASE.heads):
        sizes = replace(SHARING, kv_heads=BASE.heads // shared)
        row(shared, f"{ratios([sizes], TOKENS, given.dtype, given.rounds)[0]:.2f}")


if __name__ == "__main__":
    main()
