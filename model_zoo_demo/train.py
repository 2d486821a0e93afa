"""Train a language model on text: `python -m model_zoo_demo.train [CONFIG]`.

Reads from top to bottom: arguments, data, model, the loop, what is left at the end.
"""

import argparse
import math
import signal
import sys
import time
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor
from tqdm import tqdm

from . import checkpoint, data, drawing, generate, runlog, selection
from . import config as configs
from .errors import InputError
from .machine import add_mode, set_up
from .model import Loss, Model, arguments, parameter_count
from .optimizer import MeanOverWorkers, Step, learning_rate
from .worker import Worker

CONFIGS = Path(__file__).parent / "configs"
INTERRUPTED = 130  # exit code, as a shell has it
ORDERS = ("contiguous", "head_tail")


def parse(arguments=None):
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.train", description=__doc__)
    parser.add_argument(
        "config",
        nargs="?",
        default=CONFIGS / "demo.json",
        help="JSON file of settings; default: configs/demo.json",
    )
    parser.add_argument(
        "--out", default="runs/demo", help="folder of log, checkpoint and plot; default: runs/demo"
    )
    parser.add_argument(
        "--data", nargs="+", metavar="PATH", help="text files or folders; default: Python's library"
    )
    add_mode(parser)
    parser.add_argument(
        "--target",
        choices=("cpu", "ascend", "ascend_twin"),
        help="kernels of the operators; default: what the device implies. ascend_twin executes "
        "Ascend's on a CPU",
    )
    parser.add_argument(
        "--context",
        type=int,
        default=1,
        metavar="R",
        help="workers of msrun that share each text, with a part of its tokens each; default: 1",
    )
    parser.add_argument(
        "--tensor",
        type=int,
        default=1,
        metavar="R",
        help="workers of msrun that share the heads of each layer; default: 1",
    )
    parser.add_argument(
        "--order",
        choices=ORDERS,
        default=ORDERS[0],
        help="which tokens a worker has: one part of the text, or one from its beginning and one "
        f"from its end; default: {ORDERS[0]}",
    )
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    configs.add_assignments(parser)
    return parser.parse_args(arguments)


class StopRequest:
    """While in use, the first SIGINT or SIGTERM asks to stop after the step at hand."""

    def __enter__(self):
        self.asked = False
        self._before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _ask(self, number, frame):
        self.asked = True
        self._restore()  # the second one ends the program

    def _restore(self):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __exit__(self, *_):
        self._restore()


def bits_per_byte(loss, corpus, config, segments, worker=None):
    """Mean bits that the model needs for a byte of a corpus, the ends of documents included.

    The workers share it: one that evaluated alone would keep the others waiting until they give up.
    """
    worker = worker or Worker(config)
    total, groups = 0.0, corpus.in_order(config.rows, config.context, config.eval_bytes)
    for positions in groups:
        batch = worker.batch(corpus, positions, config, segments)
        total += float(loss(*arguments(batch)).asnumpy())
    mean = MeanOverWorkers(worker.groups.replicas)
    (found,) = mean((Tensor(np.float32(total / len(groups))),))
    return float(found.asnumpy()) / math.log(2)


def draw_step(corpus, config, step, worker, segments):
    """The batches of a step, of which the whole is the same for any number of workers."""
    rng = np.random.default_rng((config.seed, step))
    drawn = [corpus.draw(rng, config.rows, config.context) for _ in range(config.accumulation)]
    return [worker.batch(corpus, positions, config, segments) for positions in drawn]


def list_length(config, rows, *corpora):
    """Length of the list of segments, always the full one, so that one graph serves every batch.

    A piece, of which there are `rows`, is divided where documents begin; 0 says that it is not.
    """
    if config.documents == "joined":
        return 0
    most = max(corpus.most_starts(config.context) for corpus in corpora)
    return rows * (1 + most)


def resume_from(out, config, step_cell, model, digest, worker):
    """Restore a run's parameters; returns the number of steps that it had finished."""
    arrays, saved, about = checkpoint.load(out)
    checkpoint.same_run(config, saved, out)
    if about["data"] != digest:
        raise InputError(f"--resume: {out} was trained on other text")
    checkpoint.restore(step_cell.state(), worker.part(arrays, model), out)
    return about["step"]


def train(config, out, paths=None, resume=False, worker=None, say=tqdm.write):
    """Train, and write log and checkpoints to a folder; returns (finished, model, last record)."""
    worker = worker or Worker(config)
    data.check_vocabulary(config, "config")
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    if not resume and (out / checkpoint.NAME).exists():
        raise InputError(f"--out {out} holds a checkpoint: add --resume, or take another folder")

    training, validation = data.load(paths, config.context, config.rows, say)
    digest = training.digest() + validation.digest()
    segments = list_length(config, worker.rows, training, validation)
    say(
        f"data: {len(training.starts)} documents, {len(training) / 1e6:.2f} MB for training; "
        f"{len(validation.starts)}, {len(validation) / 1e6:.2f} MB for validation"
    )

    model = Model(config, worker)
    loss = Loss(model)
    step_cell = Step(loss, model.matrices(), config, worker)
    start = resume_from(out, config, step_cell, model, digest, worker) if resume else 0
    say(
        f"model: {config.attention} attention, {parameter_count(model) / 1e6:.2f} M parameters, "
        f"{config.tokens_per_step} tokens a step, {config.steps} steps"
        + f", continuing after step {start}"
        * resume
    )

    def evaluate():
        return bits_per_byte(loss, validation, config, segments, worker)

    def step_on(step):
        return step_cell(draw_step(training, config, step, worker, segments), step)

    def save(step):
        state = worker.gathered(step_cell.state(), model)
        # It would take the place of a good one.
        if not all(np.isfinite(p.astype(ms.float32).asnumpy()).all() for p in state):
            raise InputError(f"no finite weights after step {step}: lower learning_rate")
        if worker.first:
            checkpoint.save(out, state, config, step=step, data=digest)

    log = runlog.RunLog(out if worker.first else None, start)
    quiet = None if worker.first else True
    bar = tqdm(total=config.steps, initial=start, unit="step", disable=quiet)
    with bar:
        finished, record = loop(config, start, step_on, evaluate, save, log, bar, say)
    log.close()
    if not finished:
        say(f"interrupted; the checkpoint is in {out}, --resume continues")
    return finished, model, record


def loop(config, start, step_on, evaluate, save, log, bar, say):
    """Steps, evaluations and checkpoints; returns whether all is done, and the last evaluation."""
    record, seconds, tokens = {}, 0.0, 0
    with StopRequest() as stop:
        for step in range(start, config.steps + 1):  # so many steps are finished
            last = step == config.steps
            if last or step % config.eval_every == 0:
                record = {"step": step, "validation": evaluate()}
                if not math.isfinite(record["validation"]):
                    raise InputError(f"no finite loss after step {step}: lower learning_rate")
                log.write(**record)
                say(f"step {step}: validation {record['validation']:.4f} bits per byte")
            if last or stop.asked or (step > start and step % config.checkpoint_every == 0):
                save(step)
            if last or stop.asked:
                break

            began = time.perf_counter()
            nats, norm = step_on(step)
            elapsed = time.perf_counter() - began
            if not math.isfinite(nats):
                raise InputError(f"the loss of step {step} is {nats}: lower learning_rate")
            if step > start:  # the first one compiles
                seconds, tokens = seconds + elapsed, tokens + config.tokens_per_step
            speed = config.tokens_per_step / elapsed
            log.write(
                step=step,
                loss=nats,
                train=nats / math.log(2),
                rate=learning_rate(step, config),
                norm=norm,
                tokens_per_second=round(speed, 1),
            )
            bar.set_postfix_str(f"{nats / math.log(2):.3f} bits/byte, {speed:.0f} tokens/s", False)
            bar.update()
    if seconds:
        say(f"{tokens / seconds:.0f} tokens/s, {seconds:.0f} s of steps")
    return last, record


def restored(config, out):
    """The model of one worker, whose layers have caches, from the checkpoint of several."""
    model = Model(config)
    checkpoint.restore(model.trainable_params(), checkpoint.load(out)[0], out)
    return model


def finish(model, config, out, record, paths=None):
    """The plots and a sample; prints the figures and where they are."""
    out = Path(out)
    written = ["loss.png", "sample.txt", checkpoint.NAME, runlog.NAME]
    runlog.plot({config.attention: runlog.read(out)}, out / "loss.png", "Loss")
    prompt = data.encoded(config.sample_prompt)
    drawn = (config.context, [prompt], config.sample_bytes)
    (sample,) = generate.generate(model, *drawn, seed=config.seed)
    text = (prompt + sample).decode(errors="replace")
    checkpoint.write_atomically(out / "sample.txt", lambda path: path.write_bytes(text.encode()))
    if config.attention == "nsa":
        _, validation = data.load(paths, config.context, config.rows, lambda _: None)
        selection.draw(model, config, validation, out / selection.NAME)
        written.insert(1, selection.NAME)
    print(f"\n{text}\n")
    steps = [r["train"] for r in runlog.read(out) if "train" in r]
    print(f"first step  {steps[0]:.4f} bits per byte")
    print(f"last step   {steps[-1]:.4f} bits per byte")
    print(f"validation  {record['validation']:.4f} bits per byte")
    for name in written:
        print(f"{name:15} {out / name}")


def main(arguments=None):
    """The program; returns its exit code."""
    args = parse(arguments)
    try:
        config = configs.override(configs.load(args.config), args.set)
        drawing.require()
        groups = set_up(args.mode, config.device, args.target, args.context, args.tensor)
        worker = Worker(config, groups, args.order)
        say = tqdm.write if worker.first else lambda _: None
        finished, model, record = train(config, args.out, args.data, args.resume, worker, say)
        if not finished:
            return INTERRUPTED
        if worker.first:
            model = model if worker.whole else restored(config, args.out)
            finish(model, config, args.out, record, args.data)
        return 0
    except InputError as error:
        return f"train: {error}"


if __name__ == "__main__":
    sys.exit(main())
