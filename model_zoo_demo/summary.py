"""Some hundred rows of logs: `python -m model_zoo_demo.summary OUT.csv FOLDER [RUN...]`.

A row is a record of a run: every evaluation, and of the steps the first, the last, the one with the
highest rate, and as many others, evenly spread, as there is room for. `seconds` are those of all
steps before a row's record, and of its own.
"""

import argparse
import csv
from pathlib import Path

from . import config as configs
from . import runlog, train

COLUMNS = ("step", "seconds", "length", "rate", "loss", "train")
COLUMNS += ("validation", "accuracy", "final")
ROWS = 299  # and a heading


def _timed(records, tokens_per_step):
    """The records, each with the seconds of all steps up to it, where a log has them."""
    passed = 0.0
    for record in records:
        passed += record.get("seconds", 0.0)
        if "tokens_per_second" in record:
            passed += tokens_per_step / record["tokens_per_second"]
        yield {**record, "seconds": round(passed, 3)} if passed else record


def summarize(runs, tokens_per_step, rows=ROWS):
    """Rows of COLUMNS for named runs' records, `run` in front, at most so many of all."""
    room = rows // len(runs)
    found = []
    for name, records in runs.items():
        records = list(_timed(records, tokens_per_step))
        steps = [r for r in records if "loss" in r]
        fastest = max(steps, key=lambda r: r.get("rate", 0.0))
        kept = {steps[0]["step"], steps[-1]["step"], fastest["step"]}
        free = room - len(kept) - (len(records) - len(steps))
        kept |= {r["step"] for r in steps[:: max(1, -(-len(steps) // max(1, free)))]}
        for record in records:
            if "loss" not in record or record["step"] in kept:
                found.append({"run": name} | {c: record[c] for c in COLUMNS if c in record})
    return found


def read(path):
    """Name of a run to its records, as `runlog.read` gives those of a log."""
    runs = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            numbers = {k: float(v) for k, v in row.items() if k != "run" and v}
            whole = {k: int(numbers[k]) for k in ("step", "length") if k in numbers}
            runs.setdefault(row["run"], []).append(numbers | whole)
    return runs


def main(arguments=None):
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.summary", description=__doc__)
    parser.add_argument("out", help="the CSV file")
    parser.add_argument("folder", help="of one run, or of several in folders of their own")
    parser.add_argument(
        "runs", nargs="*", help="names of those folders; default: the folder itself"
    )
    parser.add_argument(
        "--config",
        default=train.CONFIGS / "demo.json",
        help="JSON file of settings, for the tokens of a step; default: configs/demo.json",
    )
    args = parser.parse_args(arguments)
    folder = Path(args.folder)
    runs = {name: runlog.read(folder / name) for name in args.runs}
    runs = runs or {folder.name: runlog.read(folder)}
    tokens = configs.load(args.config).tokens_per_step
    found = summarize(runs, tokens)
    used = [c for c in ("run", *COLUMNS) if any(c in row for row in found)]
    with open(args.out, "w", newline="") as file:
        writer = csv.DictWriter(file, used, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
