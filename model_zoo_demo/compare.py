"""Train twins that differ in their attention alone: `python -m model_zoo_demo.compare`.

NSA, sliding window and dense, with the same seed, text and number of tokens; plotted together. With
several learning rates every attention is trained at each, and shown at the one that suits it best.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from . import checkpoint, data, drawing, runlog, selection, train
from . import config as configs
from .errors import InputError
from .machine import add_mode


def last_validation(records):
    """Bits per byte of the last evaluation."""
    return [r["validation"] for r in records if "validation" in r][-1]


def report(folders, path, tokens_per_step):
    """Plot every attention at its best rate; returns the lines of the table.

    `folders` is {attention: {learning rate: folder}}.
    """
    lines, best = [], {}
    for name, by_rate in folders.items():
        runs = {rate: runlog.read(folder) for rate, folder in by_rate.items()}
        last = {rate: last_validation(records) for rate, records in runs.items()}
        rate = min(last, key=last.get)
        best[name] = (rate, last[rate], runs[rate])
        if len(runs) > 1:
            lines += [f"{name:8} rate {rate:<7g} {value:.4f}" for rate, value in last.items()]
    several = bool(lines)
    for name, (rate, value, _) in best.items():
        ratio = f", {value / best['dense'][1]:.4f} x dense" if "dense" in best else ""
        at = f" at rate {rate:g}" * several
        lines.append(f"{name:8} {value:.4f} bits per byte of validation text{at}{ratio}")
    title = "The same text, seed and number of tokens"
    title += ", each at its best learning rate" * several
    shown = {name + f" ({rate:g})" * several: records for name, (rate, _, records) in best.items()}
    runlog.plot_comparison(shown, path, title, tokens_per_step)
    return [*lines, str(path)]


def main(arguments=None):
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.compare", description=__doc__)
    parser.add_argument(
        "config",
        nargs="?",
        default=train.CONFIGS / "compare.json",
        help="JSON file of settings; default: configs/compare.json",
    )
    parser.add_argument(
        "--out", default="runs/compare", help="folder of the results; default: runs/compare"
    )
    parser.add_argument(
        "--data", nargs="+", metavar="PATH", help="text files or folders; default: as train"
    )
    parser.add_argument(
        "--attention",
        nargs="+",
        choices=configs.ATTENTIONS,
        default=["nsa", "window", "dense"],
        help="what is trained; default: nsa window dense",
    )
    parser.add_argument(
        "--rates",
        nargs="+",
        type=float,
        metavar="RATE",
        help="learning rates; default: that of the config",
    )
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoints")
    add_mode(parser)
    configs.add_assignments(parser)
    args = parser.parse_args(arguments)
    try:
        config = configs.override(configs.load(args.config), args.set)
        drawing.require()
        train.set_up(args.mode, config.device)
        rates = list(dict.fromkeys(args.rates or [config.learning_rate]))
        folders = {
            name: {
                rate: Path(args.out, f"{name}-{rate:g}" if args.rates else name) for rate in rates
            }
            for name in args.attention
        }
        twins = [(name, rate) for name in folders for rate in rates]
        for place, (name, rate) in enumerate(twins, 1):
            folder = folders[name][rate]
            # The earlier twins of an interrupted comparison are finished, the later ones not begun.
            resume = args.resume and (folder / checkpoint.NAME).exists()
            twin = replace(config, attention=name, learning_rate=rate)
            train.tqdm.write(f"{place} of {len(twins)}: {name}, learning rate {rate:g}")
            finished, model, _ = train.train(twin, folder, args.data, resume)
            if not finished:
                return train.INTERRUPTED
            if name == "nsa":
                _, validation = data.load(args.data, twin.context, twin.rows, lambda _: None)
                selection.draw(model, twin, validation, folder / selection.NAME)
                train.tqdm.write(str(folder / selection.NAME))
        print("\n".join(report(folders, Path(args.out, "compare.png"), config.tokens_per_step)))
        return 0
    except InputError as error:
        return f"compare: {error}"


if __name__ == "__main__":
    sys.exit(main())
