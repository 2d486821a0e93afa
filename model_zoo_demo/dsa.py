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

import mindspore_nsa
from mindspore_nsa.nn import RotaryAngles, Rotate

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


class TokenScores(nn.Cell):
    """The operands of an indexer's scores; nothing of its gradient reaches the layer's input."""

    def __init__(self, width, indexer, theta):
        super().__init__()
        self.heads, self.dim = indexer.heads, indexer.dim
        self.query = nn.Dense(width, self.heads * self.dim, has_bias=False)
        self.key = nn.Dense(width, self.dim, has_bias=False)
        self.weight = nn.Dense(width, self.heads, has_bias=False)
        self.angles, self.rotate = RotaryAngles(self.dim, theta), Rotate(self.dim)

    def construct(self, x, positions):
        """x [T, width] to query [T, heads, dim], key [T, 1, dim] and weights [T, heads]."""
        x = ops.stop_gradient(x)
        cos, sin = self.angles(positions)
        query = self.rotate(self.query(x).reshape(-1, self.heads, self.dim), cos, sin)
        key = self.rotate(self.key(x).reshape(-1, 1, self.dim), cos, sin)
        return query, key, self.weight(x) * (self.heads * self.dim) ** -0.5


class SparseAttention(nn.Cell):
    """Attention of heads with one key and one value over all tokens, or those that are picked."""

    def __init__(self, config, indexer):
        super().__init__()
        self.heads, self.dim, self.picks = config.heads, config.head_dim, indexer.picks
        self.scale = self.dim**-0.5
        self.query = nn.Dense(config.width, self.heads * self.dim, has_bias=False)
        self.key = nn.Dense(config.width, self.dim, has_bias=False)
        self.value = nn.Dense(config.width, self.dim, has_bias=False)
        self.output = nn.Dense(self.heads * self.dim, config.width, has_bias=False)
        self.angles, self.rotate = RotaryAngles(self.dim, config.rope_theta), Rotate(self.dim)
        self.indexer = TokenScores(config.width, indexer, config.rope_theta)

    def operands(self, x):
        """Query, key and value of attention, and the operands of the scores."""
        positions = ops.arange(x.shape[0])
        cos, sin = self.angles(positions)
        query = self.rotate(self.query(x).reshape(-1, self.heads, self.dim), cos, sin)
        key = self.rotate(self.key(x).reshape(-1, 1, self.dim), cos, sin)
        value = self.value(x).reshape(-1, 1, self.dim)
        return (query, key, value), self.indexer(x, positions)

    def dense(self, query, key, value, ends):
        """The output of dense attention, and its statistics as the KL loss takes them."""
        out, top, total = mindspore_nsa.flash_attention_score(
            query, key, value, self.heads, scalar_value=self.scale, input_layout="TND",
            sparse_mode=3, actual_seq_qlen=ends, actual_seq_kvlen=ends,
            return_softmax=True)  # fmt: skip
        return out, ops.expand_dims(top[:, :, 0], 0), ops.expand_dims(total[:, :, 0], 0)

    def sparse(self, query, key, value, ends, picks):
        """Attention over the selected tokens."""
        return mindspore_nsa.sparse_flash_attention(
            query, key, value, picks, self.scale, layout_query="TND", layout_kv="TND",
            actual_seq_lengths_query=ends, actual_seq_lengths_kv=ends,
            return_softmax_lse=True)  # fmt: skip

    def pick(self, query, key, weights, ends):
        """The indexer's choice of tokens for every query, [T, 1, picks]."""
        return mindspore_nsa.lightning_indexer(
            query, key, weights, sparse_count=self.picks, layout_query="TND", layout_key="TND",
            actual_seq_lengths_query=ends, actual_seq_lengths_key=ends)[0]  # fmt: skip

    def construct(self, x, ends, sparse):
        """Attention of x [T, width], and the KL loss of the indexer, a scalar."""
        attention, scores = self.operands(x)
        picks = self.pick(*scores, ends) if sparse else None
        if sparse:
            out, top, total = self.sparse(*attention, ends, picks)
        else:
            out, top, total = self.dense(*attention, ends)
        loss = mindspore_nsa.lightning_indexer_kl_loss(
            attention[0], attention[1], *scores, picks, top, total, self.scale, layout="TND",
            actual_seq_qlen=ends, actual_seq_klen=ends)  # fmt: skip
        return self.output(out.reshape(x.shape[0], -1)), loss

    def recall(self, x, ends, newest):
        """The part of dense attention, [T], on the picks, and on the newest tokens as many.

        Of softmax statistics: those of the tokens read over those of all.
        """
        attention, scores = self.operands(x)
        _, top, total = self.dense(*attention, ends)
        found = ()
        for picks in (self.pick(*scores, ends), newest):
            _, top_read, total_read = self.sparse(*attention, ends, picks)
            parts = total_read * ops.exp(top_read - top) / total
            found += (parts.mean(-1).reshape(-1),)
        return found


class SparseLayer(Layer):
    """A layer of the model whose attention has an indexer."""

    def __init__(self, config, indexer):
        super().__init__(config)
        self.attention = SparseAttention(config, indexer)

    def construct(self, x, ends, sparse):
        """Output of `Layer`, and the KL loss."""
        attended, loss = self.attention(self.attention_norm(x), ends, sparse)
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
    """`SparseAttention.recall` of all layers, as tuples."""

    def __init__(self, model):
        super().__init__(auto_prefix=False)
        self.model = model

    def construct(self, tokens, ends, sparse, newest):
        """Run the layers in order: each sees the output of its predecessors in that stage."""
        x, found = ops.gather(self.model.embedding, tokens, 0), ()
        for layer in self.model.layers:
            found += (layer.attention.recall(layer.attention_norm(x), ends, newest),)
            x = layer(x, ends, sparse)[0]
        return found


def places(ends):
    """Where in its document every token stands, from 0."""
    starts = np.concatenate(([0], ends[:-1]))
    return np.concatenate([np.arange(n) for n in ends - starts])


def newest_tokens(places, picks):
    """The picks, [T, 1, picks], of a window: a query's own token and those before it."""
    found = places[:, None] - np.arange(picks)
    return np.where(found >= 0, found, -1).astype(np.int32)[:, None]


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


def run(config, indexer, out, paths=None, say=tqdm.write):
    """Both stages, with a log and the table of evaluations in a folder; whether they finished."""
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
        sparse = done[0] > indexer.warm_up
        row = dict(zip(COLUMNS, (done[0], STAGES[sparse], *evaluation(sparse))))
        rows.append(row)
        say(", ".join(f"{n} {row[n]:.4f}" for n in ("kl", "recall", "newest")))
        return row["validation"]

    def step_on(step):
        sparse = step >= indexer.warm_up
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
    plot(rows, indexer, out / "dsa.png")
    return finished


def plot(rows, indexer, path):
    """Draw the losses and the recall over the steps."""
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
    add_mode(parser)
    args = parser.parse_args(arguments)
    try:
        config, indexer = load(args.config)
        drawing.require()
        set_up(args.mode, config.device)
        if not run(config, indexer, args.out, args.data):
            return train.INTERRUPTED
    except InputError as error:
        return f"dsa: {error}"
    print(f"{Path(args.out, 'log.csv')}\n{Path(args.out, 'dsa.png')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
