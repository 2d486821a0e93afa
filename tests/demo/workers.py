"""Runs in each worker of test_workers.py: `msrun ... workers.py FOLDER TEXT KINDS...`.

A kind is what workers share: the rows of a batch, each text, or the heads. They begin a training,
which is stopped after some steps, and continue another one that one worker had begun.
"""

import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.append(str(ROOT))

import model_zoo_demo  # noqa: E402, F401  (before MindSpore: it quietens it)
from model_zoo_demo import train  # noqa: E402

STEPS, BEGUN = 6, 3
SETTINGS = (f"steps={STEPS}", "rows=2", "accumulation=2", "layers=1", "eval_every=3", "clip=0.5")
# Options of the program. Pieces of 64 tokens in chunks of 32: borders cut documents.
CONTEXT = ("--context", "2", "--order", "head_tail")
KINDS = {
    "rows": (),
    "context": CONTEXT,
    "tensor": ("--tensor", "2"),
    "grid": (*CONTEXT, "--tensor", "2"),
}


class StoppedStep(train.Step):
    """A step after which, once, the program is asked to stop."""

    def __call__(self, batches, step):
        """Returns what the step gives."""
        result = super().__call__(batches, step)
        if step == BEGUN - 1:
            signal.raise_signal(signal.SIGTERM)
        return result


def run(out, text, mode, *options):
    """The demo's program, as its command line starts it; its exit code."""
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    config = train.CONFIGS / "tiny.json"
    files = map(str, (config, "--out", out, "--data", text))
    return train.main([*files, "--mode", mode, *settings, *options])


def compute(folder, text, kinds):
    """Begin a training of every kind, and continue one of one worker."""
    train.Step = StoppedStep
    finish = train.finish
    for kind in kinds:
        options = KINDS[kind]
        # One graph, of the workers whose layers differ most from those of a worker alone.
        mode = "graph" if kind == "context" else "pynative"
        assert run(folder / kind, text, mode, *options) == train.INTERRUPTED
        train.finish = finish if kind == kinds[-1] else lambda *_: None
        assert run(folder / f"{kind} on", text, "pynative", "--resume", *options) == 0


if __name__ == "__main__":
    compute(*map(Path, sys.argv[1:3]), sys.argv[3:])
