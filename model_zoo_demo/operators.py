"""Trains a small language model through every operator of mindspore_nsa: `make demo`.

The task is to predict the next byte of Python source text, that of the standard library of the
interpreter at hand, so nothing is downloaded. The network is a small transformer whose attention is
Native Sparse Attention, written with the operators themselves: compressed tokens, the blocks they
select and a sliding window, mixed by gates.
"""

import argparse
import math
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

import mindspore_nsa


@dataclass(frozen=True)
class Config:
    """Sizes of the network and of its training."""

    layers: int = 2
    width: int = 128
    query_heads: int = 4
    key_heads: int = 2  # each serves query_heads / key_heads query heads
    head_dim: int = 32
    compress_block: int = 32  # l, bytes of a compressed token
    compress_stride: int = 16  # s
    select_block: int = 64  # l', bytes of a selection block
    select_count: int = 4  # blocks a query reads, among them the first one and two local ones
    window: int = 64
    length: int = 512  # bytes of a training sequence
    batch: int = 4
    learning_rate: float = 2e-3


def source_bytes():
    """The standard library's modules as one array, in the same order every time."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return np.frombuffer(b"\n".join(f.read_bytes() for f in files), np.uint8)


def draw_batch(data, config, rng):
    """Bytes [batch * length] and the byte after each of them."""
    starts = rng.integers(0, len(data) - config.length, config.batch)
    index = (starts[:, None] + np.arange(config.length)).reshape(-1)
    return Tensor(data[index].astype(np.int32)), Tensor(data[index + 1].astype(np.int32))


class SparseAttention(nn.Cell):
    """Native Sparse Attention over packed sequences."""

    def __init__(self, config):
        super().__init__()
        c = self.config = config
        # Inclusive prefix sums: the packed sequences end at these tokens.
        self.ends = tuple(c.length * (b + 1) for b in range(c.batch))
        self.scale = c.head_dim**-0.5
        self.query = nn.Dense(c.width, c.query_heads * c.head_dim, has_bias=False)
        # Keys and values of the three branches.
        self.keys = nn.Dense(c.width, 6 * c.key_heads * c.head_dim, has_bias=False)
        self.gates = nn.Dense(c.width, 3 * c.query_heads)
        self.out = nn.Dense(c.query_heads * c.head_dim, c.width, has_bias=False)
        mean = np.full((c.compress_block, c.key_heads), 1 / c.compress_block, np.float32)
        self.key_weight = Parameter(Tensor(mean), name="key_weight")
        self.value_weight = Parameter(Tensor(mean), name="value_weight")
        # The window's scores fall with the distance, at another rate for every head.
        slopes = 2.0 ** -np.arange(1, c.query_heads + 1)
        self.slopes = Tensor(slopes.astype(np.float32))

    def construct(self, x):
        """x and the result are [T, width]."""
        c, ends, scale = self.config, self.ends, self.scale
        q = self.query(x).reshape(-1, c.query_heads, c.head_dim)
        k_cmp, v_cmp, k_slc, v_slc, k_win, v_win = ops.unbind(
            self.keys(x).reshape(-1, 6, c.key_heads, c.head_dim), 1
        )
        # 1. Compressed: every query sees the whole past, one token for each window of it, and
        # learns which blocks matter.
        k_cmp = mindspore_nsa.nsa_compress(
            k_cmp, self.key_weight, c.compress_block, c.compress_stride, actual_seq_len=ends
        )
        v_cmp = mindspore_nsa.nsa_compress(
            v_cmp, self.value_weight, c.compress_block, c.compress_stride, actual_seq_len=ends
        )
        compressed, blocks, _, _ = mindspore_nsa.nsa_compress_attention(
            q,
            k_cmp,
            v_cmp,
            scale,
            c.query_heads,
            c.compress_block,
            c.compress_stride,
            c.select_block,
            c.select_count,
            actual_seq_qlen=ends,
            causal=True,
            init_blocks=1,
            local_blocks=2,
            importance="overlap",
        )
        # 2. Selected: the blocks that matter, byte by byte.
        selected, _, _ = mindspore_nsa.nsa_selected_attention(
            q,
            k_slc,
            v_slc,
            blocks,
            scale,
            c.query_heads,
            c.select_block,
            c.select_count,
            actual_seq_qlen=ends,
            actual_seq_kvlen=ends,
            causal=True,
        )
        # 3. Window: the last bytes.
        window = mindspore_nsa.flash_attention_score(
            q,
            k_win,
            v_win,
            c.query_heads,
            real_shift=self.slopes,
            actual_seq_qlen=ends,
            actual_seq_kvlen=ends,
            scalar_value=scale,
            pre_tokens=c.window - 1,
            next_tokens=0,
            input_layout="TND",
            sparse_mode=4,
            pse_type=2,
        )
        gates = ops.sigmoid(self.gates(x)).reshape(-1, 3, c.query_heads, 1)
        mixed = gates[:, 0] * compressed + gates[:, 1] * selected + gates[:, 2] * window
        return self.out(mixed.reshape(-1, c.query_heads * c.head_dim))


class Layer(nn.Cell):
    """Attention and a feed-forward network, each added to its normalised input."""

    def __init__(self, config):
        super().__init__()
        width = config.width
        self.attention = SparseAttention(config)
        self.attention_norm = nn.LayerNorm((width,))
        self.forward_norm = nn.LayerNorm((width,))
        self.widen = nn.Dense(width, 4 * width, activation="relu")
        self.narrow = nn.Dense(4 * width, width)

    def construct(self, x):
        """x and the result are [T, width]."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.narrow(self.widen(self.forward_norm(x)))


class Model(nn.Cell):
    """The network and its loss."""

    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(256, config.width)
        self.layers = nn.SequentialCell([Layer(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm((config.width,))
        self.head = nn.Dense(config.width, 256)

    def construct(self, inputs, targets):
        """Mean cross entropy, in nats, of the targets; inputs and targets are [T]."""
        x = self.layers(self.embedding(inputs))
        return ops.cross_entropy(self.head(self.norm(x)), targets)


def train(config, steps, seed, mode, report=lambda step, loss: None):
    """Losses of `steps` steps; `report` is called after each."""
    ms.set_context(mode=mode)
    ms.set_seed(seed)
    rng = np.random.default_rng(seed)
    data = source_bytes()
    model = Model(config)
    optimizer = nn.Adam(model.trainable_params(), learning_rate=config.learning_rate)
    step_cell = nn.TrainOneStepCell(model, optimizer).set_train()
    losses = []
    for step in range(steps):
        losses.append(float(step_cell(*draw_batch(data, config, rng))))
        report(step, losses[-1])
    return losses


def main():
    """Trains, prints, and fails if the loss did not fall."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=20, help="steps between two lines")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=("graph", "pynative"), default="graph")
    args = parser.parse_args()

    config = Config()
    mindspore_nsa.show_config()
    print(f"next byte of {len(source_bytes()) / 1e6:.1f} MB of Python source, {args.mode} mode")
    started = time.perf_counter()
    times = []

    def report(step, loss):
        times.append(time.perf_counter())
        if step % args.every == 0 or step == args.steps - 1:
            print(
                f"step {step:4d}  loss {loss:.4f}  bits per byte {loss / math.log(2):.3f}"
                f"  {times[-1] - started:5.1f} s",
                flush=True,
            )

    mode = ms.GRAPH_MODE if args.mode == "graph" else ms.PYNATIVE_MODE
    losses = train(config, args.steps, args.seed, mode, report)
    tail = losses[-args.every :]
    first, last = losses[0], sum(tail) / len(tail)
    tokens = config.batch * config.length
    if len(times) > 1:  # the first step compiles
        print(f"{tokens * (len(times) - 1) / (times[-1] - times[0]):.0f} bytes/s")
    print(
        f"first loss {first:.4f} ({first / math.log(2):.3f} bits per byte), mean of the last "
        f"{len(tail)} {last:.4f} ({last / math.log(2):.3f} bits per byte)"
    )
    if not last < first:
        sys.exit("the loss did not fall")


if __name__ == "__main__":
    main()
