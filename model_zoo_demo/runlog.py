"""The log of a run, one JSON object a line, and the picture of it."""

import json
from pathlib import Path

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


def plot(runs, path, title, baseline=None):
    """Draw the loss curves of named runs.

    Args:
        runs (dict): Name to records with `step` and `train` or `validation`, in bits per byte.
        path (Path): Where the PNG goes.
        title (str): Its heading.
        baseline (tuple): Height and name of a horizontal line. Default: none.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for place, (name, records) in enumerate(runs.items()):
        color = f"C{place}"
        train = [(r["step"], r["train"]) for r in records if "train" in r]
        if train:
            steps, values = zip(*train)
            axes.plot(steps, smooth(values), color=color, alpha=0.35, label=f"{name}, training")
        seen = [(r["step"], r["validation"]) for r in records if "validation" in r]
        if seen:
            axes.plot(*zip(*seen), color=color, marker=".", label=f"{name}, validation")
    if baseline:
        axes.axhline(baseline[0], color="gray", linestyle=":", label=baseline[1])
    axes.set(xlabel="steps", ylabel="bits per byte", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    write_atomically(path, lambda temporary: figure.savefig(temporary, format="png", dpi=120))
    pyplot.close(figure)
