"""Draws the curves of the README, and writes the figures of its table and of docs/measurements.md.

time.svg, memory.svg and the README's table are made from lengths.csv, which `python -m
benchmarks.lengths` writes, the table of cases from speed.csv, which `python -m benchmarks --csv`
writes, recall.svg from the rows of `python -m model_zoo_demo.recall`, and conversion.svg from those
of `python -m model_zoo_demo.convert`. Run it again after a change, or `make figures`, which
measures first.
"""

import csv
import re
import sys
from pathlib import Path

from svg import curves

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
READMES = ("README.md", "README.zh-CN.md")
MEASUREMENTS = "docs/measurements.md"
NSA, DENSE, OTHER, GRAY = "#c8553d", "#3b6fb6", "#3f8f5b", "#7b8794"
DASHES = "7 5"
NAMES = {
    "nsa": ("NSA", NSA),
    "flash_attention_score": ("dense: flash_attention_score", DENSE),
    "torch": ("dense: PyTorch", OTHER),
    "mindspore": ("dense: MindSpore's separate operators", GRAY),
}
# In the table of the READMEs, beside the longest that was measured.
SHOWN = (1024, 2048, 4096, 16384)


def load(path):
    """{tokens: {attention: row}} in order."""
    found = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(int(row["tokens"]), {})[row["attention"]] = row
    return dict(sorted(found.items()))


def seconds(rows, direction):
    """(of NSA, of the fastest dense attention)"""
    times = {name: float(row[f"{direction}_seconds"]) for name, row in rows.items()}
    return times.pop("nsa"), min(times.values())


def of_tokens(lengths):
    """Ticks at every length."""
    return [(n, f"{n // 1024}k") for n in lengths]


def powers(low, high, names):
    """Ticks at the powers of ten around two numbers; `names` are (power, text)."""
    texts = dict(names)
    powers = [p for p in sorted(texts) if 10.0**p * 10 > low and 10.0**p / 10 < high]
    return [(10.0**p, texts[p]) for p in powers]


TIMES = (
    *((-4, "100 us"), (-3, "1 ms"), (-2, "10 ms"), (-1, "100 ms")),
    *((0, "1 s"), (1, "10 s"), (2, "100 s"), (3, "1000 s")),
)
SIZES = ((5, "0.1 MB"), (6, "1 MB"), (7, "10 MB"), (8, "100 MB"), (9, "1 GB"), (10, "10 GB"))
SIZES += ((11, "100 GB"),)


def machine(rows):
    """What the figures were measured on."""
    row = next(iter(next(iter(rows.values())).values()))
    dtype = row["shape"].rsplit(", ", 1)[1]
    return (
        f"{row['cpu']}, {row['threads']} threads, {row['isa']}; {dtype}, 16 heads of 128 that "
        f"share a key head; PyTorch {row['torch'].partition('+')[0]}"
    )


def time_picture(found):
    """Time against length, NSA and the fastest dense attention, forward and with the gradient."""
    series = []
    for direction, words, dashes in (
        ("both", "forward and backward", ""),
        ("forward", "forward", DASHES),
    ):
        ours = [(n, seconds(rows, direction)[0]) for n, rows in found.items()]
        dense = [(n, seconds(rows, direction)[1]) for n, rows in found.items()]
        series.append((f"fastest dense attention, {words}", DENSE, dashes, dense))
        series.append((f"NSA, {words}", NSA, dashes, ours))
    values = [y for *_, points in series for _, y in points]
    return curves(
        *("Time of attention", "tokens of the text", of_tokens(found)),
        *("time", powers(min(values), max(values), TIMES), series),
        note=machine(found),
    )


def memory_picture(found):
    """Memory against length."""
    series = []
    for name, (words, color) in reversed(NAMES.items()):
        points = [(n, float(rows[name]["bytes"])) for n, rows in found.items() if name in rows]
        if points:
            series.append((words, color, "", points))
    values = [y for *_, points in series for _, y in points]
    return curves(
        *("Memory of forward and backward", "tokens of the text", of_tokens(found)),
        *("memory beyond the inputs", powers(min(values), max(values), SIZES), series),
        note=machine(found),
    )


def rows(experiment):
    """Run to its rows, cells as texts, of one of the demo's experiments."""
    found = {}
    path = ROOT / "model_zoo_demo" / "results" / experiment / "log.csv"
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["run"], []).append({k: v for k, v in row.items() if v})
    return found


def recall_picture():
    """Right answers over the steps of training, and of 1,000 fresh sequences at the end."""
    series, last = [], 0
    for name, words, color in (("nsa", "NSA", NSA), ("window", "sliding window", DENSE)):
        records = rows("recall")[name]
        seen = [r for r in records if "accuracy" in r]
        points = [(int(r["step"]), 100 * float(r["accuracy"])) for r in seen]
        final = next(r for r in records if "final" in r)
        share = 100 * float(final["final"])
        points.append((int(final["step"]), share))
        last = max(last, int(final["step"]))
        series.append((f"{words}: {share:.1f} % at the end", color, "", points))
    ticks = [(n, f"{n:,}") for n in range(0, last + 1, 300)]
    return curves(
        *("Recall over 4,096 tokens", "steps of training", ticks),
        # The names of the curves stand above them.
        *("right answers", [*((y, f"{y} %") for y in (0, 25, 50, 75, 100)), (135, "")], series),
        logarithmic=False,
        note="a key is asked for at least 576 tokens after its value; chance is 3.1 %",
    )


def conversion_picture():
    """Validation loss of what goes on from a dense model, and of others beside it."""
    series, values, last = [], [], 0
    for name, words, color, dashes in (
        ("dense", "dense, goes on dense", DENSE, ""),
        ("converted", "dense, converted to NSA", NSA, ""),
        ("shared", "dense, converted, shared keys and values", OTHER, ""),
        ("nsa", "NSA from the start", GRAY, DASHES),
    ):
        records = [r for r in rows("conversion")[name] if "validation" in r]
        points = [(int(r["step"]), float(r["validation"])) for r in records]
        values += [y for _, y in points]
        last = max(last, points[-1][0])
        series.append((words, color, dashes, points))
    low, high = int(10 * min(values)), int(10 * max(values)) + 1
    ticks = [(y / 10, f"{y / 10:.1f}") for y in range(low, high + 1)]
    return curves(
        *("A dense model goes on with NSA", "more steps of training"),
        [(n, f"{n}") for n in range(0, last + 1, 20)],
        # The names of the curves stand above them.
        *("bits per byte of validation text", [*ticks, (high / 10 + 0.2, "")], series),
        logarithmic=False,
        note="context 1,024 bytes, of which a query reads 256 in blocks and the last 128",
    )


def _seconds(value):
    """A time with three digits."""
    return f"{value:#.3g}".rstrip(".") + " s"


def table(found):
    """The rows of the READMEs' table."""
    lines = []
    for tokens in (n for n in found if n in SHOWN or n == max(found)):
        cells = [f"{tokens:,}"]
        for direction in ("forward", "both"):
            ours, dense = seconds(found[tokens], direction)
            cells += [_seconds(ours), _seconds(dense), f"{dense / ours:.1f}"]
        others = found[tokens].get("mindspore")
        cells.append(_seconds(float(others["both_seconds"])) if others else "")
        lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def _times(value):
    """A ratio with three digits; what is no number, such as why there is none, is left out."""
    try:
        return f"{float(value):#.3g}".rstrip(".")
    except ValueError:
        return ""


def _share(row):
    """A share and what it is of, in one word that every language takes."""
    if row["share"]:
        return f"{float(row['share']):.2f} {row['share_of'].split()[0]}"
    return ""


def speed_table(path):
    """The rows of the table of benchmark cases."""
    lines = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            cells = (
                f"`{row['case']}`",
                row["shape"],
                f"{1e3 * float(row['seconds']):#.3g}".rstrip("."),
                _times(row["speedup_over_torch"]),
                _times(row["speedup_over_dense"]),
                _share(row),
            )
            lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def replaced(text, rows, of_table, name):
    """The text with other rows in the one table whose rows begin as the pattern says."""
    text, count = re.subn(rf"(?m)(?:^\| {of_table}.*\n)+", lambda _: rows, text)
    if count != 1:
        sys.exit(f"{name} must have one table whose rows begin with {of_table}, has {count}")
    return text


def main(folder=HERE, root=ROOT):
    """Write the pictures to a folder, and the tables into the pages of another."""
    found = load(HERE / "lengths.csv")
    pictures = {
        "time": time_picture(found),
        "memory": memory_picture(found),
        "recall": recall_picture(),
        "conversion": conversion_picture(),
    }
    for name, picture in pictures.items():
        Path(folder, f"{name}.svg").write_text(picture)
    tables = {name: (table(found), r"\d[\d,]* \|") for name in READMES}
    tables[MEASUREMENTS] = (speed_table(HERE / "speed.csv"), r"`\w+_b?float\d+_\w+` \|")
    for name, (rows, of_table) in tables.items():
        path = Path(root, name)
        path.write_text(replaced(path.read_text(), rows, of_table, path))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
