"""Train twins that differ in their attention alone: `python -m model_zoo_demo.compare`.

NSA, sliding window and dense, with the same seed, text and number of tokens; plotted together.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from . import checkpoint, runlog, train
from . import config as configs
from .errors import InputError


def report(folders, path):
    """Plot the runs of named folders; returns the lines of the table of their last evaluations."""
    runs = {name: runlog.read(folder) for name, folder in folders.items()}
    runlog.plot(runs, path, "The same text, seed and number of tokens")
    last = {
        name: [r["validation"] for r in records if "validation" in r][-1]
        for name, records in runs.items()
    }
    lines = []
    for name, value in last.items():
        ratio = f", {value / last['dense']:.4f} x dense" if "dense" in last else ""
        lines.append(f"{name:8} {value:.4f} bits per byte of validation text{ratio}")
    return [*lines, str(path)]


def main(arguments=None):
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.compare", description=__doc__)
    parser.add_argument("config", nargs="?", default=train.CONFIGS / "compare.json")
    parser.add_argument("--out", default="runs/compare")
    parser.add_argument("--data", nargs="+", metavar="PATH")
    parser.add_argument(
        "--attention", nargs="+", choices=configs.ATTENTIONS, default=["nsa", "window", "dense"]
    )
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--mode", choices=("graph", "pynative"), default="graph")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args(arguments)
    try:
        config = configs.override(configs.load(args.config), args.set)
        train.set_up(args.mode, config.device)
        folders = {name: Path(args.out, name) for name in args.attention}
        for name, folder in folders.items():
            # The earlier twins of an interrupted comparison are finished, the later ones not begun.
            resume = args.resume and (folder / checkpoint.NAME).exists()
            twin = replace(config, attention=name)
            if not train.train(twin, folder, args.data, resume)[0]:
                return train.INTERRUPTED
        print("\n".join(report(folders, Path(args.out, "compare.png"))))
        return 0
    except InputError as error:
        return f"compare: {error}"


if __name__ == "__main__":
    sys.exit(main())
