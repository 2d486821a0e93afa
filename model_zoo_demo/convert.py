"""Continue a dense model with Native Sparse Attention: `python -m model_zoo_demo.convert`.

Trains a dense model and one with NSA from the start. Then the dense one goes on, its conversion
goes on (`NativeSparseAttention.from_dense`, with sets of keys of their own and with a shared one),
and the one with NSA goes on: the same batches, and an optimizer that begins anew for each.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from mindspore_nsa.nn import DenseAttention, NativeSparseAttention

from . import checkpoint, data, runlog, train
from . import config as configs
from .errors import InputError
from .machine import add_mode, set_up
from .model import Loss, Model, nsa_config
from .optimizer import Step
from .worker import Worker

# Name of what goes on: the attention that was trained, and changes of NSAConfig where it is
# converted.
CONTINUED = {
    "dense": ("dense", None),
    "nsa": ("nsa", None),
    "converted": ("dense", {"gating": "residual"}),
    "shared": ("dense", {"gating": "residual", "shared_kv": True}),
}
FIRST = "trained"


def convert(model, config, **changes):
    """Exchange the dense attention of every layer, in place; `changes` are fields of NSAConfig."""
    for layer in model.layers:
        if not isinstance(layer.attention, DenseAttention):
            raise InputError("convert: the attention of every layer must be dense")
        sizes = replace(nsa_config(config), **changes)
        layer.attention = NativeSparseAttention.from_dense(layer.attention, sizes)
    for name, parameter in model.parameters_and_names():
        parameter.name = name
    return model


def go_on(name, config, folder, out, paths, say):
    """Train a model further from the checkpoint in a folder; returns the last validation loss."""
    _, changes = CONTINUED[name]
    arrays, saved, _ = checkpoint.load(folder)
    model = Model(saved)
    checkpoint.restore(model.trainable_params(), arrays, folder)
    if changes is not None:
        convert(model, saved, **changes)
    loss = Loss(model)
    step_cell = Step(loss, model.matrices(), config)
    training, validation = data.load(paths, config.context, config.rows, lambda _: None)
    segments = train.list_length(config, config.rows, training, validation)
    Path(out).mkdir(parents=True, exist_ok=True)
    log = runlog.RunLog(out, 0)
    # Other batches than those that the model was trained with.
    others = replace(config, seed=config.seed + 1)
    worker = Worker(others)
    for step in range(config.steps + 1):
        if step % config.eval_every == 0 or step == config.steps:
            bits = train.bits_per_byte(loss, validation, config, segments)
            log.write(step=step, validation=bits)
            say(f"{name}: step {step}, validation {bits:.4f} bits per byte")
        if step < config.steps:
            nats, _ = step_cell(train.draw_step(training, others, step, worker, segments), step)
            log.write(step=step, loss=nats)
    log.close()
    return bits


def main(arguments=None):
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.convert", description=__doc__)
    parser.add_argument(
        "config",
        nargs="?",
        default=train.CONFIGS / "convert.json",
        help="JSON file of settings; default: configs/convert.json",
    )
    parser.add_argument(
        "--out", default="runs/convert", help="folder of the results; default: runs/convert"
    )
    parser.add_argument(
        "--data", nargs="+", metavar="PATH", help="text files or folders; default: as train"
    )
    parser.add_argument("--more", type=int, default=100, help="steps to go on; default: 100")
    add_mode(parser)
    configs.add_assignments(parser)
    args = parser.parse_args(arguments)
    say = train.tqdm.write
    try:
        config = configs.override(configs.load(args.config), args.set)
        if args.more < 1:
            raise InputError(f"--more must be at least 1, got {args.more}")
        set_up(args.mode, config.device)
        out, lines = Path(args.out), []
        for attention in dict.fromkeys(attention for attention, _ in CONTINUED.values()):
            folder = out / f"{FIRST}-{attention}"
            # An interrupted run goes on where it stopped.
            resume = (folder / checkpoint.NAME).exists()
            twin = replace(config, attention=attention)
            if not train.train(twin, folder, args.data, resume, say=say)[0]:
                return train.INTERRUPTED
        more = replace(
            config, steps=args.more, warmup=args.more // 10, eval_every=max(1, args.more // 10)
        )
        for name, (attention, _) in CONTINUED.items():
            bits = go_on(name, more, out / f"{FIRST}-{attention}", out / name, args.data, say)
            records = [r["validation"] for r in runlog.read(out / name) if "validation" in r]
            lines.append(f"{name:10} {records[0]:.4f} then {bits:.4f} bits per byte")
        print("\n".join(lines))
        return 0
    except InputError as error:
        return f"convert: {error}"


if __name__ == "__main__":
    sys.exit(main())
