"""`python -m benchmarks.figures`: draws the curves of the pages from the figures of runs.

time.svg and memory.svg are drawn from what `python -m benchmarks.lengths` measured, recall.svg and
conversion.svg from the committed rows of the demo's experiments. `make figures` measures first.
docs/figures/branches.svg shows how a query reads keys, and no figures; branches.py beside it draws
that one.
"""

import argparse
import textwrap
from pathlib import Path

from . import demo_rows, plot, table_rows, tables

ROOT = tables.ROOT
FOLDER = ROOT / "docs" / "figures"
LENGTHS = ROOT / tables.TABLES["lengths"].file
NSA, DENSE, OTHER, GRAY = "#c8553d", "#3b6fb6", "#3f8f5b", "#7b8794"
NAMES = {
    "mindspore": ("dense: MindSpore's separate operators", GRAY),
    "torch": ("dense: PyTorch", OTHER),
    "flash_attention_score": ("dense: flash_attention_score", DENSE),
    "nsa": ("NSA", NSA),
}
SECONDS = {-2: "10 ms", -1: "100 ms", 0: "1 s", 1: "10 s", 2: "100 s", 3: "1000 s"}
BYTES = {7: "10 MB", 8: "100 MB", 9: "1 GB", 10: "10 GB", 11: "100 GB"}
INCHES = 7.2, 5.2


def canvas(title, note=""):
    """A figure of the size that all have, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(INCHES)
    axes = figure.add_axes((0.14, 0.19, 0.82, 0.72))
    axes.set_title(title, loc="left", fontweight="bold")
    axes.grid(color="#dfe4ea")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.text(0.5, 0.015, textwrap.fill(note, 90), ha="center", fontsize=9, color="#5b6770")
    return figure, axes


def curve(axes, name, color, points, dashed=False):
    """A line with a mark at every point, where they are few."""
    marker, style = "o" if len(points) < 20 else "", (0, (5, 3)) if dashed else "-"
    # The gid is the name by which the curve is found in the file.
    axes.plot(
        *zip(*points), label=name, color=color, linestyle=style, linewidth=2.2, marker=marker,
        gid=f"curve: {name}",
    )  # fmt: skip


def logarithmic(axes, lengths, heights, names):
    """Both axes, with a tick at every length, and at the powers of ten around the heights."""
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(lengths, [f"{n // 1024}k" for n in lengths])
    shown = [p for p in names if min(heights) < 10.0 ** (p + 1) and 10.0 ** (p - 1) < max(heights)]
    axes.set_yticks([10.0**p for p in shown], [names[p] for p in shown])
    # The names of the curves stand above them.
    axes.set_ylim(10.0 ** shown[0], 10.0 ** (shown[-1] + 0.9))
    axes.minorticks_off()
    axes.set_xlabel("tokens of the text")
    axes.legend(frameon=False, loc="upper left")


def machine(found):
    """Machine and shapes that the figures were measured on."""
    row = next(iter(next(iter(found.values())).values()))
    dtype = row["shape"].rsplit(", ", 1)[1]
    return (
        f"{row['cpu']}, {row['threads']} threads, {row['isa']}; {dtype}, 16 heads of 128 that "
        f"share a key head; version {row['mindspore_nsa']} at {row['commit']}, {row['date']}, "
        f"PyTorch {row['torch'].partition('+')[0]}"
    )


def time(found):
    """Time over length, NSA and the fastest dense attention, forward and with the gradient."""
    figure, axes = canvas("Time of attention", machine(found))
    heights = []
    for direction, words in (("both", "forward and backward"), ("forward", "forward")):
        times = {n: table_rows.ours_and_dense(rows, direction) for n, rows in found.items()}
        heights += [value for both in times.values() for value in both]
        for place, (name, color) in enumerate((("NSA", NSA), ("fastest dense attention", DENSE))):
            points = [(n, both[place]) for n, both in times.items()]
            curve(axes, f"{name}, {words}", color, points, direction == "forward")
    logarithmic(axes, list(found), heights, SECONDS)
    return figure


def memory(found):
    """Memory over length."""
    figure, axes = canvas("Memory of forward and backward", machine(found))
    heights = []
    for name, (words, color) in NAMES.items():
        points = [(n, float(rows[name]["bytes"])) for n, rows in found.items() if name in rows]
        heights += [height for _, height in points]
        if points:
            curve(axes, words, color, points)
    logarithmic(axes, list(found), heights, BYTES)
    axes.set_ylabel("memory beyond the inputs")
    return figure


def experiment(name, run, column):
    """(step, value) of a run of one of the demo's experiments."""
    rows = tables.read(ROOT / demo_rows.RESULTS / name / "log.csv")
    found = [row for row in rows if row["run"] == run and row[column]]
    return [(int(row["step"]), float(row[column])) for row in found]


def recall():
    """Right answers over the steps of training, and of fresh sequences at the end."""
    figure, axes = canvas(
        "Recall over 4,096 tokens",
        "a key is asked for at least 576 tokens after its value; chance is 3.1 %",
    )
    for name, words, color in (("nsa", "NSA", NSA), ("window", "sliding window", DENSE)):
        ((last, final),) = experiment("recall", name, "final")
        points = [*experiment("recall", name, "accuracy"), (last, final)]
        points = [(step, 100 * share) for step, share in points]
        curve(axes, f"{words}: {100 * final:.1f} % at the end", color, points)
    axes.set(xlabel="steps of training", ylabel="right answers", ylim=(0, 125))
    axes.set_xticks(range(0, last + 1, 300))
    axes.set_yticks(range(0, 101, 25), [f"{y} %" for y in range(0, 101, 25)])
    axes.legend(frameon=False, loc="upper left")
    return figure


def conversion():
    """Validation loss of what goes on from a dense model, and of others beside it."""
    figure, axes = canvas(
        "A dense model goes on with NSA",
        "context 1,024 bytes, of which a query reads 256 in blocks and the last 128",
    )
    for name, words, color in (
        ("dense", "dense, goes on dense", DENSE),
        ("converted", "dense, converted to NSA", NSA),
        ("shared", "dense, converted, shared keys and values", OTHER),
        ("nsa", "NSA from the start", GRAY),
    ):
        curve(axes, words, color, experiment("conversion", name, "validation"), name == "nsa")
    low, high = axes.get_ylim()
    axes.set(xlabel="more steps of training", ylabel="bits per byte of validation text")
    axes.set_ylim(low, high + 0.3 * (high - low))
    axes.legend(frameon=False)
    return figure


def draw():
    """{name: figure} of every picture."""
    found = table_rows.by_length(tables.read(LENGTHS))
    return {
        "time": time(found),
        "memory": memory(found),
        "recall": recall(),
        "conversion": conversion(),
    }


def style():
    """Settings of matplotlib: text stays text, and the same figures give the same file."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "mindspore_nsa",
        "path.simplify": False,
        "font.size": 11,
        "axes.titlesize": 13,
    }


def main():
    """Writes the files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder; default: docs/figures")
    given = parser.parse_args()
    if not given.out.is_dir():
        parser.error(f"--out {given.out}: must be a folder that exists")
    plot.require("python -m benchmarks.figures")
    import matplotlib

    with matplotlib.rc_context(style()):
        for name, figure in draw().items():
            # Neither the day nor the version of matplotlib, which would be other lines every time.
            nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            figure.savefig(given.out / f"{name}.svg", metadata=nothing)


if __name__ == "__main__":
    main()
