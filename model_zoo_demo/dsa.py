"""DeepSeek Sparse Attention in the demo's model: `python -m model_zoo_demo.dsa [CONFIG]`.

Two stages on the same text. In the warm-up attention is dense, and beside it an indexer in every
layer learns what attention reads. Then every query reads the tokens alone that its indexer picks,
and the indexer goes on learning from these. Its weights are trained by the KL loss alone, all
others by that of the language model. What is drawn: both losses, and the recall of the indexers,
the part of dense attention that stands on their picks.
"""

import argparse
import csv
import json
import math
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from mindspore import Tensor, nn, ops
from tqdm import tqdm

from mindspore_nsa.models import DeepseekV32Attention

from . import config as configs
from . import data, drawing, runlog, train
from .errors import InputError
from .machine import add_mode, set_up
from .model import Layer, Model, arguments, parameter_count
from .optimizer import Step
from .worker import Worker

COLUMNS = ("step", "stage", "validation", "kl", "recall", "newest")
STAGES = ("warm-up", "sparse")


@dataclass(frozen=True)
class Indexer:
    """Sizes of the indexer, and the step at which attention begins to read its tokens alone."""

    heads: int = 4
    dim: int = 32
    picks: int = 64
    warm_up: int = 150  # steps

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise InputError(f"indexer: {field.name} must be an int above 0, got {value!r}")
        if self.dim % 2:
            raise InputError(f"indexer: dim must be even, got {self.dim}")


def sparse_attention(config, indexer):
    """The attention of DeepSeek-V3.2 in the model's sizes."""
    sizes = {
        "hidden_size": config.width,
        "num_attention_heads": config.heads,
        "q_lora_rank": config.width,
        "kv_lora_rank": 2 * config.head_dim,
        "qk_nope_head_dim": config.head_dim,
        "qk_rope_head_dim": config.head_dim // 2,
        "v_head_dim": config.head_dim,
        "rope_theta": config.rope_theta,
        "index_n_heads": indexer.heads,
        "index_head_dim": indexer.dim,
        "index_topk": indexer.picks,
    }
    try:
        return DeepseekV32Attention(sizes, 0)
    except ValueError as error:
        raise InputError(f"config: {error}") from None


class SparseLayer(Layer):
    """A layer of the model whose attention has an indexer."""

    def __init__(self, config, indexer):
        super().__init__(config)
        self.attention = sparse_attention(config, indexer)

    def construct(self, x, ends, sparse):
        """Output of `Layer`, and the KL loss."""
        stage = "sparse" if sparse else "dense"
        attended, loss = self.attention(self.attention_norm(x), ends, stage=stage)
        x = x + attended
        return x + self.forward(self.forward_norm(x)), loss


class SparseModel(Model):
    """Tokens to logits of their successors, and the mean KL loss of the layers."""

    def __init__(self, config, indexer):
        super().__init__(config)
        self.layers = nn.CellList([SparseLayer(config, indexer) for _ in range(config.layers)])
        self.initialize(config)

    def construct(self, tokens, ends, sparse):
        """int32 tokens [T], the prefix sums of documents, and whether attention is sparse."""
        x, losses = ops.gather(self.embedding, tokens, 0), 0.0
        for layer in self.layers:
            x, loss = layer(x, ends, sparse)
            losses = losses + loss
        return self.logits(x), losses / len(self.layers)


class Losses(nn.Cell):
    """Both losses of a batch, in nats: cross entropy, and KL."""

    def __init__(self, model):
        super().__init__(auto_prefix=False)
        self.model = model
        self.cross_entropy = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, tokens, targets, ends, sparse):
        """int32 tokens and targets [T]."""
        logits, kl = self.model(tokens, ends, sparse)
        return self.cross_entropy(logits, targets), kl


class Total(nn.Cell):
    """Their sum, which is what a step differentiates: each trains its own weights."""

    def __init__(self, losses):
        super().__init__(auto_prefix=False)
        self.losses = losses

    def construct(self, tokens, targets, ends, sparse):
        """A scalar."""
        cross_entropy, kl = self.losses(tokens, targets, ends, sparse)
        return cross_entropy + kl


class Recall(nn.Cell):
    """For every layer the part of dense attention, [T], on its picks, and on the newest tokens."""

    def __init__(self, model):
        super().__init__(auto_prefix=False)
        self.model = model

    def construct(self, tokens, ends, sparse, newest):
        """Run the layers in order: each sees the output of its predecessors in that stage."""
        x, found = ops.gather(self.model.embedding, tokens, 0), ()
        for layer in self.model.layers:
            normed = layer.attention_norm(x)
            of_layer = ()
            for picks in (None, newest):
                of_layer += (layer.attention(normed, ends, topk_indices=picks, stage="recall")[1],)
            found += (of_layer,)
            x = layer(x, ends, sparse)[0]
        return found


def places(ends):
    """Where in its document every token stands, from 0."""
    starts = np.concatenate(([0], ends[:-1]))
    return np.concatenate([np.arange(n) for n in ends - starts])


def newest_tokens(places, picks):
    """The picks, [T, picks], of a window: a query's own token and those before it."""
    found = places[:, None] - np.arange(picks)
    return np.where(found >= 0, found, -1).astype(np.int32)


class Evaluation:
    """Validation loss, KL loss and recall on the same text every time."""

    def __init__(self, losses, corpus, config, indexer, segments):
        self.losses, self.recall = losses, Recall(losses.model)
        self.indexer, self.worker = indexer, Worker(config)
        groups = corpus.in_order(config.rows, config.context, config.eval_bytes)
        self.batches = [self.worker.batch(corpus, g, config, segments) for g in groups]

    def __call__(self, sparse):
        """Bits per byte, KL in nats, and two recalls, of queries that see more than is picked."""
        sums, masses = [], []
        for tokens, targets, ends in self.batches:
            sums.append(
                [float(x) for x in self.losses(*arguments((tokens, targets, ends)), sparse)]
            )
            place = places(np.asarray(ends))
            newest = newest_tokens(place, self.indexer.picks)
            found = self.recall(*arguments((tokens, ends)), sparse, Tensor(newest))
            many = place >= self.indexer.picks
            masses.append([[x.asnumpy()[many] for x in layer] for layer in found])
        cross_entropy, kl = np.mean(sums, axis=0)
        recalls = [
            float(np.concatenate([layer[i] for batch in masses for layer in batch]).mean())
            for i in range(2)
        ]
        return cross_entropy / math.log(2), kl, *recalls


def load(path):
    """The settings of the model and of the indexer, of a JSON file with these two objects."""
    try:
        values = json.loads(Path(path).read_text())
        model, given = values["model"], values["indexer"]
        indexer = Indexer(**given)
    except OSError as error:
        raise InputError(f"config {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"config {path}: {type(error).__name__}: {error}") from None
    config = configs.from_dict(model, f"config {path}")
    if config.attention != "dense" or config.dtype != "float32":
        raise InputError(f"config {path}: attention must be dense and dtype float32")
    if not indexer.warm_up < config.steps:
        raise InputError(
            f"config {path}: warm_up must be below steps ({config.steps}), got {indexer.warm_up}"
        )
    return config, indexer


def run(config, indexer, out, paths=None, dense=False, beside=None, say=tqdm.write):
    """Both stages, or `dense` the first alone, with log, table and plot in a folder.

    `beside` is the folder of another run, which is drawn, too. Returns whether all is done.
    """
    other = None if beside is None else table(beside)
    warm_up = config.steps if dense else indexer.warm_up
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    worker = Worker(config)
    training, validation = data.load(paths, config.context, config.rows, say)
    segments = train.list_length(config, worker.rows, training, validation)
    model = SparseModel(config, indexer)
    losses = Losses(model)
    step_cell = Step(Total(losses), model.matrices(), config, worker)
    evaluation = Evaluation(losses, validation, config, indexer, segments)
    log, rows, done = runlog.RunLog(out), [], [0]
    say(f"{parameter_count(model) / 1e6:.2f} M parameters, {indexer.picks} picks of each query")

    def evaluate():
        sparse = done[0] > warm_up
        row = dict(zip(COLUMNS, (done[0], STAGES[sparse], *evaluation(sparse))))
        rows.append(row)
        say(", ".join(f"{n} {row[n]:.4f}" for n in ("kl", "recall", "newest")))
        return row["validation"]

    def step_on(step):
        sparse = step >= warm_up
        batches = train.draw_step(training, config, step, worker, segments)
        done[0] = step + 1
        return step_cell([(*batch, sparse) for batch in batches], step)

    with tqdm(total=config.steps, unit="step", disable=None) as bar:
        finished, _ = train.loop(config, 0, step_on, evaluate, lambda step: None, log, bar, say)
    log.close()
    with open(out / "log.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            numbers = {n: round(x, 4) for n, x in row.items() if type(x) is not str}
            writer.writerow(row | numbers)
    plot(rows, indexer, out / "dsa.png", other)
    return finished


def table(folder, name="log.csv"):
    """The evaluations of a run, with numbers."""
    try:
        with open(Path(folder, name), newline="") as file:
            return [
                {n: x if n == "stage" else float(x) for n, x in row.items()}
                for row in csv.DictReader(file)
            ]
    except (OSError, ValueError) as error:
        raise InputError(f"--beside {folder}: {error}") from None


def plot(rows, indexer, path, other=None):
    """Draw the losses and the recall over the steps, and the loss of another run."""
    figure, panels = drawing.pyplot().subplots(1, 3, figsize=(13, 4), layout="constrained")
    steps = [row["step"] for row in rows]
    drawn = (
        ("Language model, bits per byte", {"validation": None}),
        ("Indexers, KL in nats: of all tokens, then of picks", {"kl": None}),
        (
            f"Part of dense attention on {indexer.picks} tokens",
            {"recall": "picked by the indexers", "newest": "as many newest ones"},
        ),
    )
    for axes, (title, names) in zip(panels, drawn):
        for name, label in names.items():
            axes.plot(steps, [row[name] for row in rows], marker=".", label=label)
        if other and "validation" in names:
            axes.plot(*([row[n] for row in other] for n in ("step", "validation")), label="dense")
        axes.axvline(indexer.warm_up, color="gray", linestyle=":", label="sparse from here on")
        axes.set(xlabel="steps", ylim=(0, None), title=title)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")
    drawing.save(figure, path, dpi=100)


def main(arguments=None):
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo_demo.dsa", description=__doc__)
    parser.add_argument(
        "config",
        nargs="?",
        default=train.CONFIGS / "dsa.json",
        help="JSON file of model and indexer; default: configs/dsa.json",
    )
    parser.add_argument(
        "--out", default="runs/dsa", help="folder of log and plot; default: runs/dsa"
    )
    parser.add_argument(
        "--data", nargs="+", metavar="PATH", help="text files or folders; default: as train"
    )
    parser.add_argument(
        "--dense", action="store_true", help="stay in the first stage, to be compared with"
    )
    parser.add_argument("--beside", metavar="FOLDER", help="draw the loss of that run, too")
    add_mode(parser)
    args = parser.parse_args(arguments)
    try:
        config, indexer = load(args.config)
        drawing.require()
        set_up(args.mode, config.device)
        if not run(config, indexer, args.out, args.data, args.dense, args.beside):
            return train.INTERRUPTED
    except InputError as error:
        return f"dsa: {error}"
    print(f"{Path(args.out, 'log.csv')}\n{Path(args.out, 'dsa.png')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
