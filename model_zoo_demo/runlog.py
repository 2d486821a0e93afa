"""The log of a run, one JSON object a line, and the picture of it."""

import json
from pathlib import Path

from . import drawing
from .checkpoint import write_atomically

NAME = "log.jsonl"


def read(folder):
    """The records of a run; a last line that was cut off is left out."""
    path = Path(folder, NAME)
    if not path.exists():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1]]


class RunLog:
    """Appends records to a run's log.

    Args:
        folder (Path): The run's, or None where nothing is to be written.
        step (int): Continue after so many steps, without what was written later. Default: ``0``.
    """

    def __init__(self, folder, step=0):
        self._file = None
        if folder is None:
            return
        kept = [record for record in read(folder) if record["step"] < step]
        text = "".join(json.dumps(record) + "\n" for record in kept)
        write_atomically(Path(folder, NAME), lambda path: path.write_text(text))
        self._file = open(Path(folder, NAME), "a", buffering=1)

    def write(self, **record):
        """Add a record; `step` is how many steps came before what it tells."""
        if self._file:
            self._file.write(json.dumps(record) + "\n")

    def close(self):
        """The file is complete."""
        if self._file:
            self._file.close()


def smooth(values, share=0.02):
    """Running mean with exponentially falling weights, over about a share of the values."""
    keep = 1 - 1 / max(1.0, share * len(values))
    result, weight, total = [], 0.0, 0.0
    for value in values:
        total, weight = keep * total + value, keep * weight + 1
        result.append(total / weight)
    return result


def seconds_at(records, tokens_per_step):
    """Seconds of training before each step of a log, and after the last one.

    The first step also compiles.
    """
    passed = [0.0]
    for record in records:
        if "tokens_per_second" in record:
            passed.append(passed[-1] + tokens_per_step / record["tokens_per_second"])
    return passed


def _curve(axes, name, color, records, place=lambda step: step):
    """Training and validation losses of a run; `place` is where on the axis a step is."""
    train = [(place(r["step"]), r["train"]) for r in records if "train" in r]
    if train:
        places, values = zip(*train)
        axes.plot(places, smooth(values), color=color, alpha=0.35, label=f"{name}, training")
    seen = [(place(r["step"]), r["validation"]) for r in records if "validation" in r]
    if seen:
        axes.plot(*zip(*seen), color=color, marker=".", label=f"{name}, validation")


def plot(runs, path, title, baseline=None):
    """Draw the loss curves of named runs.

    Args:
        runs (dict): Name to records with `step` and `train` or `validation`, in bits per byte.
        path (Path): Where the PNG goes.
        title (str): Its heading.
        baseline (tuple): Height and name of a horizontal line. Default: none.
    """
    figure, axes = drawing.pyplot().subplots(figsize=(8, 5), layout="constrained")
    for place, (name, records) in enumerate(runs.items()):
        _curve(axes, name, f"C{place}", records)
    if baseline:
        axes.axhline(baseline[0], color="gray", linestyle=":", label=baseline[1])
    axes.set(xlabel="steps", ylabel="bits per byte", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    drawing.save(figure, path)


def plot_comparison(runs, path, title, tokens_per_step):
    """Draw the loss curves of named runs over tokens, and beside it over seconds of training.

    Args:
        runs (dict): As for `plot`; the records of steps have `tokens_per_second` too.
        path (Path): Where the PNG goes.
        title (str): Its heading.
        tokens_per_step (int): Of all runs.
    """
    figure, (over_tokens, over_seconds) = drawing.pyplot().subplots(
        1, 2, figsize=(13, 5), sharey=True, layout="constrained"
    )
    for place, (name, records) in enumerate(runs.items()):
        passed = seconds_at(records, tokens_per_step)
        color = f"C{place}"
        _curve(over_tokens, name, color, records, lambda step: step * tokens_per_step / 1e6)
        _curve(over_seconds, name, color, records, passed.__getitem__)
    over_tokens.set(xlabel="million tokens", ylabel="bits per byte")
    over_seconds.set(xlabel="seconds of training steps")
    for axes in (over_tokens, over_seconds):
        axes.grid(alpha=0.3)
    over_tokens.legend()
    figure.suptitle(title)
    drawing.save(figure, path)
