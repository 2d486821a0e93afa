"""Associative recall over a long distance: `python -m model_zoo_demo.recall`.

A sequence is random filler with pairs of a key and a value strewn in. At its end stand some of the
keys again, each followed by its value, which is what the model has to say. All these pairs lie at
least `gap` tokens before the first question: further than a stack of sliding windows can reach.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
from mindspore import Tensor, nn, ops
from tqdm import tqdm

from . import checkpoint, drawing, runlog
from . import config as configs
from .errors import InputError
from .machine import add_mode, reads_caches
from .model import Model, parameter_count
from .optimizer import Step
from .train import CONFIGS, INTERRUPTED, StopRequest, set_up


@dataclass(frozen=True)
class Task:
    """The sequences. Tokens are keys, then values, then fillers."""

    keys: int = 64
    values: int = 32  # chance is 1 / values
    fillers: int = 32
    pairs: int = 16  # in a sequence, of different keys
    questions: int = 16  # of them asked at its end
    gap: int = 576  # least distance of a question from its pair, in sequences of full length
    stages: tuple = ((128, 32, 500), (4096, 1, 1000))  # length, rows and steps
    evaluation: int = 1000  # sequences of full length at the end

    @property
    def vocabulary(self):
        """Number of tokens."""
        return self.keys + self.values + self.fillers

    @property
    def steps(self):
        """Steps of all stages."""
        return sum(steps for _, _, steps in self.stages)

    def distance(self, length):
        """The gap of sequences of a length: at most a quarter, so that short ones have one too."""
        return min(self.gap, length // 4)

    def stage(self, step):
        """Length and rows of a step."""
        ends = np.cumsum([steps for _, _, steps in self.stages])
        place = np.searchsorted(ends, step, side="right")
        return self.stages[min(place, len(self.stages) - 1)][:2]

    def check(self, config):
        """Fail where the sequences cannot be made, or do not show what they are to show."""
        reach = config.layers * config.window_size
        if not self.questions <= self.pairs <= self.keys:
            raise InputError("recall: questions <= pairs <= keys must hold")
        for length, _, _ in self.stages:
            if (length - 2 * self.questions - self.distance(length)) // 2 < self.pairs:
                raise InputError(f"recall: {self.pairs} pairs do not fit into length {length}")
        if self.distance(self.stages[-1][0]) < reach + 512:
            raise InputError(
                f"recall: gap must be at least layers * window_size + 512 = {reach + 512}, and at "
                f"most a quarter of the last length; got {self.gap}"
            )

    def draw(self, rng, rows, length):
        """Sequences, packed.

        Returns:
            int32 tokens `[rows * length]`; where in them the asked keys stand and what the answers
            are, both `[rows * questions]`; int64 prefix sums of the sequences.
        """
        tokens = rng.integers(self.keys + self.values, self.vocabulary, (rows, length))
        end = length - 2 * self.questions  # the first question
        # A pair takes two places; those of a sequence are all even or all odd.
        places = (end - self.distance(length)) // 2
        for row in tokens:
            keys = rng.permutation(self.keys)[: self.pairs]
            values = self.keys + rng.integers(0, self.values, self.pairs)
            at = 2 * rng.permutation(places)[: self.pairs] + rng.integers(0, 2)
            row[at], row[at + 1] = keys, values
            row[end::2], row[end + 1 :: 2] = keys[: self.questions], values[: self.questions]
        asked = np.arange(rows)[:, None] * length + np.arange(end, length, 2)
        flat = tokens.reshape(-1)
        return (
            flat.astype(np.int32),
            asked.reshape(-1).astype(np.int32),
            flat[asked + 1].reshape(-1).astype(np.int32),
            np.arange(1, rows + 1, dtype=np.int64) * length,
        )


class Answers(nn.Cell):
    """Logits where the questions are."""

    def __init__(self, model):
        super().__init__(auto_prefix=False)
        self.model = model

    def construct(self, tokens, asked, ends):
        """int32 tokens [T] and places [n] to [n, vocabulary]."""
        return self.model.logits(ops.gather(self.model.hidden(tokens, ends), asked, 0))


class CachedAnswers:
    """Answers from caches: all before the first question in one pass, then token by token."""

    def __init__(self, model):
        self.model = model

    def __call__(self, tokens, asked, ends):
        """Answers of sequences of equal length with their questions at equal places."""
        rows, asked = len(ends), asked.asnumpy()
        texts = tokens.asnumpy().reshape(rows, -1)
        places = asked.reshape(rows, -1)[0]
        caches = self.model.new_cache(rows, texts.shape[1])
        before = np.arange(1, rows + 1) * places[0]
        self.model(Tensor(texts[:, : places[0]].reshape(-1)), Tensor(before), caches)
        one = Tensor(np.arange(1, rows + 1))
        said = [
            self.model(Tensor(texts[:, place]), one, caches)
            for place in range(places[0], places[-1] + 1)
        ]
        return ops.stack(said[:: places[1] - places[0]], 1).reshape(len(asked), -1)


class AnswerLoss(nn.Cell):
    """Mean cross entropy of the answers."""

    def __init__(self, answers):
        super().__init__(auto_prefix=False)
        self.answers = answers
        self.cross_entropy = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, tokens, asked, expected, ends):
        """Loss of a batch of `Task.draw`."""
        return self.cross_entropy(self.answers(tokens, asked, ends), expected)


def accuracy(answers, task, seed, count, rows, length):
    """Share of right answers in `count` sequences that training has not seen."""
    return float(np.mean(list(answered(answers, task, seed, count, rows, length))))


def answered(answers, task, seed, count, rows, length):
    """Whether each answer is right."""
    for number in range(-(-count // rows)):
        rng = np.random.default_rng((seed, 1, number))
        tokens, asked, expected, ends = task.draw(rng, rows, length)
        logits = answers(Tensor(tokens), Tensor(asked), Tensor(ends)).asnumpy()
        kept = min(rows, count - number * rows) * task.questions
        yield from (logits.argmax(-1) == expected)[:kept]


def compare_caches(folder, mode, count):
    """Ask a trained model `count` sequences in one pass and from its caches.

    Returns:
        Two lists of bool: whether each answer was right, in one pass and from the caches.
    """
    arrays, config, about = checkpoint.load(folder)
    given = about["task"]
    task = Task(**{**given, "stages": tuple(map(tuple, given["stages"]))})
    set_up(mode, config.device)
    model = Model(config)
    if not reads_caches(model):
        raise InputError("--caches: the kernels in use have none that read caches of float32")
    checkpoint.restore(model.trainable_params(), arrays, folder)
    length, rows = task.stage(task.steps)
    kinds = (Answers(model), CachedAnswers(model))
    return [list(answered(kind, task, config.seed, count, rows, length)) for kind in kinds]


def train(config, task, out, resume=False, say=tqdm.write):
    """Train one model and evaluate it; returns the accuracy, None where it was interrupted."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    about = {"task": json.loads(json.dumps(asdict(task)))}
    answers = Answers(Model(config))
    step_cell = Step(AnswerLoss(answers), answers.model.matrices(), config)
    start = 0
    if (out / checkpoint.NAME).exists():
        if not resume:
            raise InputError(
                f"--out {out} holds a checkpoint: add --resume, or take another folder"
            )
        arrays, saved, before = checkpoint.load(out)
        checkpoint.same_run(config, saved, out)
        if before["task"] != about["task"]:
            raise InputError(f"--resume: {out} was trained with {before['task']}")
        checkpoint.restore(step_cell.state(), arrays, out)
        start = before["step"]
    say(f"{config.attention}: {parameter_count(answers) / 1e6:.2f} M parameters, from step {start}")

    log = runlog.RunLog(out, start)
    bar = tqdm(total=task.steps, initial=start, unit="step", disable=None)
    length, rows = task.stage(start)
    with StopRequest() as stop:
        for step in range(start, task.steps + 1):
            last = step == task.steps
            if step > start and (last or stop.asked or step % config.checkpoint_every == 0):
                checkpoint.save(out, step_cell.state(), config, step=step, **about)
            if stop.asked:
                break
            if last:
                found = accuracy(answers, task, config.seed, task.evaluation, rows, length)
                log.write(step=step, length=length, final=found)
                break
            if step > start and step % config.eval_every == 0:
                found = accuracy(answers, task, config.seed, max(rows, 32), rows, length)
                log.write(step=step, length=length, accuracy=found)
                say(f"{config.attention} step {step}: length {length}, {found:.1%} right")
            length, rows = task.stage(step)
            began = time.perf_counter()
            batch = task.draw(np.random.default_rng((config.seed, 0, step)), rows, length)
            loss, norm = step_cell([batch], step)
            seconds = time.perf_counter() - began
            log.write(step=step, length=length, loss=loss, norm=norm, seconds=round(seconds, 3))
            bar.update()
    bar.close()
    log.close()
    return None if stop.asked else found


def plot(folders, task, path):
    """Draw the accuracy of named runs."""
    figure, axes = drawing.pyplot().subplots(figsize=(8, 5), layout="constrained")
    begin = 0
    for length, _, steps in task.stages:
        axes.axvline(begin, color="lightgray", linewidth=0.8)
        axes.text(begin, 1.03, f" {length}", fontsize=8, color="gray")
        begin += steps
    for place, (name, folder) in enumerate(folders.items()):
        records = runlog.read(folder)
        seen = [(r["step"], r["accuracy"]) for r in records if "accuracy" in r]
        if seen:
            axes.plot(*zip(*seen), color=f"C{place}", alpha=0.6, label=name)
        for record in (r for r in records if "final" in r):
            label = f"{name}, {task.evaluation} fresh sequences: {record['final']:.1%}"
            axes.plot(record["step"], record["final"], "o", color=f"C{place}", label=label)
    axes.axhline(1 / task.values, color="gray", linestyle=":", label=f"chance 1/{task.values}")
    title = "Associative recall (grey: length of the sequences)"
    axes.set(xlabel="steps", ylabel="right answers", ylim=(0, 1.08), title=title)
    axes.legend()
    drawing.save(figure, path)


def load(path):
    """The model's settings and the task of a JSON file with the objects "model" and "task"."""
    try:
        values = json.loads(Path(path).read_text())
        model, given = values["model"], values["task"]
        given["stages"] = tuple(tuple(map(int, stage)) for stage in given["stages"])
    except OSError as error:
        raise InputError(f"config {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"config {path}: {type(error).__name__}: {error}") from None
    unknown = given.keys() - {field.name for field in fields(Task)}
    if unknown:
        raise InputError(f"config {path}: no setting of the task is called {min(unknown)!r}")
    task = Task(**given)
    model |= {"vocabulary": task.vocabulary, "steps": task.steps}
    config = configs.from_dict(model, f"config {path}")
    task.check(config)
    return config, task


def main(arguments=None):
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.recall", description=__doc__)
    parser.add_argument(
        "config",
        nargs="?",
        default=CONFIGS / "recall.json",
        help="JSON file of model and task; default: configs/recall.json",
    )
    parser.add_argument(
        "--out", default="runs/recall", help="folder of the results; default: runs/recall"
    )
    parser.add_argument(
        "--attention",
        nargs="+",
        choices=configs.ATTENTIONS,
        default=["nsa", "window"],
        help="what is trained; default: nsa window",
    )
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoints")
    parser.add_argument(
        "--caches",
        metavar="FOLDER",
        help="train nothing: ask the model of a folder in one pass and from its caches",
    )
    parser.add_argument(
        "--sequences", type=int, default=100, help="how many --caches asks; default: 100"
    )
    add_mode(parser)
    args = parser.parse_args(arguments)
    try:
        if args.caches is not None:
            if args.sequences < 1:
                raise InputError(f"--sequences must be at least 1, got {args.sequences}")
            passed, cached = map(np.array, compare_caches(args.caches, args.mode, args.sequences))
            print(f"in one pass      {passed.mean():.2%} of {passed.size} answers right")
            print(f"from the caches  {cached.mean():.2%}, {np.sum(passed != cached)} differ")
            return 0
        config, task = load(args.config)
        drawing.require()
        set_up(args.mode, config.device)
        folders = {name: Path(args.out, name) for name in args.attention}
        results = {}
        for name, folder in folders.items():
            results[name] = train(replace(config, attention=name), task, folder, args.resume)
            if results[name] is None:
                print(f"interrupted; --resume continues from {folder}")
                return INTERRUPTED
        path = Path(args.out, "recall.png")
        plot(folders, task, path)
    except InputError as error:
        return f"recall: {error}"
    for name, found in results.items():
        print(f"{name:8} {found:.2%} right in {task.evaluation} sequences of {task.stages[-1][0]}")
    print(f"chance   {1 / task.values:.2%}\n{path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
