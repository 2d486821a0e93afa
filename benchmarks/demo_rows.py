"""The rows of the tables of the demo's experiments, from model_zoo_demo/results."""

import json
from pathlib import Path

from .table_rows import Table

RESULTS = "model_zoo_demo/results"
RECALL = Path(__file__).resolve().parents[1] / "model_zoo_demo" / "configs" / "recall.json"
CONVERTED = {
    "dense": "goes on dense",
    "converted": "goes on with NSA",
    "shared": "goes on with NSA, shared keys and values",
    "nsa": "NSA from the start",
}


def runs(rows):
    """{run: rows}"""
    found = {}
    for row in rows:
        found.setdefault(row["run"], []).append(row)
    return found


def values(rows, column):
    """The numbers of a column, where there are some."""
    return [float(row[column]) for row in rows if row[column]]


def minutes(rows):
    """Time that the steps of a run took."""
    return f"{float([row for row in rows if row['loss']][-1]['seconds']) / 60:.0f} min"


def demo(rows):
    """Bits per byte of the first and the last step, and of the last validation."""
    train = values(rows, "train")
    found = {"first step": train[0], "last step": train[-1]}
    found["validation"] = values(rows, "validation")[-1]
    return [[name, f"{value:.4f}"] for name, value in found.items()]


def comparison(rows):
    """A line for each attention."""
    found = runs(rows)
    last = {name: values(of, "validation")[-1] for name, of in found.items()}
    return [
        [f"`{name}`", f"{last[name]:.4f}", f"{last[name] / last['dense']:.4f}", minutes(of)]
        for name, of in found.items()
    ]


def recall(rows):
    """A line for each attention, and one for who guesses."""
    lines = [
        [f"`{name}`", f"{100 * values(of, 'final')[-1]:.2f} %", minutes(of)]
        for name, of in runs(rows).items()
    ]
    answers = json.loads(RECALL.read_text())["task"]["values"]
    return [*lines, [f"chance, 1/{answers}", f"{100 / answers:.2f} %", ""]]


def conversion(rows):
    """Validation before and after more steps, a line for each model."""
    found = runs(rows)
    both = {name: values(found[name], "validation") for name in CONVERTED}
    return [
        [f"`{name}`", f"{both[name][0]:.4f}", f"{both[name][-1]:.4f}", words]
        for name, words in CONVERTED.items()
    ]


def indexers(rows):
    """The beginning, the end of the warm-up, and the end."""
    warm = [row for row in rows if row["stage"] == "warm-up"]
    return [
        [row["step"]]
        + [f"{float(row[name]):.4f}" for name in ("validation", "kl")]
        + [f"{100 * float(row[name]):.1f} %" for name in ("recall", "newest")]
        for row in (rows[0], warm[-1], rows[-1])
    ]


def throughput(rows):
    """Tokens per second of both, a line for each context."""
    found = []
    for row in rows:
        rate, ratio = float(row["rate"]), float(row["speedup_over_dense"])
        found.append([row["tokens"], f"{rate:.0f}", f"{rate / ratio:.0f}", f"{ratio:.2f}"])
    return found


TABLES = {
    "demo": Table(f"{RESULTS}/demo/log.csv", demo),
    "comparison": Table(f"{RESULTS}/compare/log.csv", comparison),
    "recall": Table(f"{RESULTS}/recall/log.csv", recall),
    "conversion": Table(f"{RESULTS}/conversion/log.csv", conversion),
    "indexers of the demo": Table(f"{RESULTS}/dsa/log.csv", indexers),
    "throughput": Table(f"{RESULTS}/throughput/training.csv", throughput),
}
