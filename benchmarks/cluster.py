"""Computes the traffic and memory of context parallel workers: `python -m benchmarks.cluster`.

Nothing is measured here. The sizes are those of the paper's layer, 16-bit. The rates of a worker's
kernels are those that docs/ascend_modelled_time.md has for these sizes on a 910B1, which the twin's
clock modelled. The counts of rows are those that tests find in runs with 2 and 4 workers.
"""

import argparse
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sizes:
    """A layer, and the bytes of what travels."""

    heads: int = 64
    kv_heads: int = 4
    dim: int = 192
    value_dim: int = 128
    block: int = 32
    stride: int = 16
    window: int = 512
    selected: int = 16 * 64  # keys of the chosen blocks
    bytes: int = 2
    gradient_bytes: int = 4  # gradients are summed in float32

    @property
    def row(self):
        """Numbers of a token's keys and values of one branch."""
        return self.kv_heads * (self.dim + self.value_dim)


PAPER = Sizes()
WORKERS, TOKENS = (8, 64, 512), (65536, 2**20, 10 * 2**20)
# Branch: tokens of a causal text, heads times (key and value width), microseconds of the forward
# and of the gradient on that page. The window's is causal attention without a window.
MODELLED = {
    "compressed": (8192, 64 * (192 + 128), 693.8, 2488),
    "selected": (8192, 64 * (192 + 128), 3330, 12968),
    "window": (4096, 16 * (128 + 128), 445, 1531),
}


def keys(position, sizes=PAPER):
    """Keys that the queries before a position read, by branch."""
    position = np.asarray(position, np.float64)

    def upto(limit):
        return np.where(position < limit, position**2 / 2, limit * position - limit**2 / 2)

    return {
        "compressed": position**2 / (2 * sizes.stride),
        "selected": upto(sizes.selected),
        "window": upto(sizes.window),
    }


def seconds(tokens, workers, gradient=False, sizes=PAPER):
    """Modelled time of the mean worker's attention in a forward, or in its backward."""
    total = 0.0
    for branch, found in keys(tokens, sizes).items():
        length, width, *times = MODELLED[branch]
        seen = length**2 / 2 if branch == "window" else keys(length)[branch]
        rate = seen * width / (times[gradient] * 1e-6)
        total += found * sizes.heads * (sizes.dim + sizes.value_dim) / rate
    return total / workers


def _passes(order):
    return 2 if order == "head_tail" else 1


def balance(tokens, workers, order, sizes=PAPER):
    """The most loaded worker's keys over the mean, of one document."""
    borders = np.linspace(0, tokens, _passes(order) * workers + 1)
    chunks = np.diff(sum(keys(borders, sizes).values()))
    loads = chunks if len(chunks) == workers else chunks[:workers] + chunks[::-1][:workers]
    return loads.max() / loads.mean()


def border_rows(tokens, workers, order, sizes=PAPER):
    """Rows that all workers get of their neighbours, before and after their chunks, together."""
    count = _passes(order) * workers
    chunk = tokens // count
    begins = np.arange(count) * chunk
    before, after = sizes.window - 1, sizes.block - 1
    total = np.minimum(before, begins).sum() + np.minimum(after, begins[::-1]).sum()
    if order == "head_tail":
        # A worker's own other chunk is not sent.
        between = begins[workers:] - begins[:workers][::-1] - chunk
        for reach in (before, after):
            total -= np.clip(reach - between, 0, chunk).sum()
    return int(total)


def rows_received(tokens, workers, order="contiguous", windows=None, sizes=PAPER):
    """Rows that all workers get in a layer's forward, together.

    `windows` are the compressed rows that each of them sends, by default those of one document.
    """
    chunk = tokens // (_passes(order) * workers)
    if windows is None:
        windows = _passes(order) * -(-chunk // sizes.stride)
    gathered = workers * (workers - 1) * (tokens // workers + windows)
    return gathered + border_rows(tokens, workers, order, sizes)


def received(tokens, workers, order="contiguous", gradient=False, sizes=PAPER):
    """Bytes that the mean worker gets in a layer's forward, or in its backward."""
    size = sizes.gradient_bytes if gradient else sizes.bytes
    return rows_received(tokens, workers, order, None, sizes) * sizes.row * size / workers


def table():
    """Lines of a table in Markdown."""
    yield (
        "| T | R | received, forward | backward | kept | contiguous | head-tail | forward hides at "
        "| backward | |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for tokens in TOKENS:
        for workers in WORKERS:
            moved = [received(tokens, workers, gradient=g) for g in (False, True)]
            taken = [seconds(tokens, workers, gradient=g) for g in (False, True)]
            forward, backward = (m / t / 1e9 for m, t in zip(moved, taken))
            yield (
                f"| {tokens // 1024}k | {workers} | {moved[0] / 1e6:.0f} MB | "
                f"{moved[1] / 1e6:.0f} MB | {tokens * PAPER.row * PAPER.bytes / 1e6:.0f} MB | "
                f"{balance(tokens, workers, 'contiguous'):.2f} | "
                f"{balance(tokens, workers, 'head_tail'):.3f} | {forward:.1f} GB/s | "
                f"{backward:.1f} GB/s | computed |"
            )


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.parse_args(arguments)
    print("\n".join(table()))


if __name__ == "__main__":
    main()
