"""What context parallel workers exchange and keep, computed: `python -m benchmarks.cluster`.

Nothing is measured here. The sizes are those of the paper's layer, 16-bit; the rate of a worker's
kernels is an assumption, given as --rate.
"""

import argparse

import numpy as np

SIZES = {"heads": 64, "kv_heads": 4, "dim": 192, "value_dim": 128, "bytes": 2}
BLOCK, STRIDE, WINDOW, SELECTED = 32, 16, 512, 16 * 64
WORKERS, TOKENS = (8, 64, 512), (65536, 2**20, 10 * 2**20)


def keys(position):
    """Keys that the queries before a position read, all branches together."""

    def upto(limit):
        return np.where(position < limit, position**2 / 2, limit * position - limit**2 / 2)

    position = np.asarray(position, np.float64)
    return position**2 / (2 * STRIDE) + upto(SELECTED) + upto(WINDOW)


def balance(tokens, workers, order):
    """The most loaded worker's keys over the mean, of one document."""
    passes = 2 if order == "head_tail" else 1
    borders = np.linspace(0, tokens, passes * workers + 1)
    chunks = np.diff(keys(borders))
    loads = chunks if passes == 1 else chunks[:workers] + chunks[::-1][:workers]
    return loads.max() / loads.mean()


def row():
    """Bytes of a token's keys and values of one branch."""
    s = SIZES
    return s["kv_heads"] * (s["dim"] + s["value_dim"]) * s["bytes"]


def received(tokens, workers):
    """Bytes that a worker receives in a layer's forward, borders from its neighbours only."""
    share = (workers - 1) / workers
    return (share * tokens * (1 + 1 / STRIDE) + WINDOW - 1 + BLOCK - 1) * row()


def operations(tokens, workers):
    """Multiplications and additions of the mean worker's attention in a forward."""
    return 2 * SIZES["heads"] * (SIZES["dim"] + SIZES["value_dim"]) * keys(tokens) / workers


def table(rate):
    """Lines of a table in Markdown; `rate` in 10^12 operations a second."""
    yield "| T | R | received, forward | kept | contiguous | head-tail | bandwidth | |"
    yield "|---|---|---|---|---|---|---|---|"
    for tokens in TOKENS:
        for workers in WORKERS:
            seconds = operations(tokens, workers) / (rate * 1e12)
            moved = received(tokens, workers)
            yield (
                f"| {tokens // 1024}k | {workers} | {moved / 1e6:.0f} MB | "
                f"{tokens * row() / 1e6:.0f} MB | {balance(tokens, workers, 'contiguous'):.2f} | "
                f"{balance(tokens, workers, 'head_tail'):.3f} | {moved / seconds / 1e9:.1f} GB/s | "
                "computed |"
            )


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--rate", type=float, default=100.0, help="10^12 operations a second")
    print("\n".join(table(parser.parse_args(arguments).rate)))


if __name__ == "__main__":
    main()
