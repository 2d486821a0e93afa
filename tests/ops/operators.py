"""One small good call of every operator, to be varied."""

import mindspore as ms
import numpy as np
from mindspore import Tensor

import mindspore_nsa

# Two segments of 40 and 56 tokens; windows of 16 tokens, 8 apart: 4 and 6; blocks of 16: 3 and 4.
SEQ, CMP, SEL = (40, 96), (4, 10), (3, 7)
T, WINDOWS, N1, N2, D, DV = 96, 10, 4, 2, 16, 8


def draw(*shape, dtype="float32"):
    values = np.random.default_rng(sum(shape)).standard_normal(shape)
    return Tensor(values.astype(np.float32)).astype(getattr(ms, dtype))


def indices():
    chosen = np.random.default_rng(0).integers(-1, 4, (T, N2, 3)).astype(np.int32)
    chosen[..., 0] = 0
    return Tensor(chosen)


def arguments(name):
    """Arguments of a good call by name; lists are tuples."""
    window = {"compress_block_size": 16, "compress_stride": 8}
    attention = {"query": draw(T, N1, D), "scale_value": 0.25, "head_num": N1}
    select = {"select_block_size": 16, "select_block_count": 3}
    if name == "nsa_compress":
        return {"input": draw(T, N2, D), "weight": draw(16, N2), **window, "actual_seq_len": SEQ}
    if name == "nsa_compress_attention":
        return {
            **attention,
            "key": draw(WINDOWS, N2, D),
            "value": draw(WINDOWS, N2, DV),
            **window,
            **select,
            "actual_seq_qlen": SEQ,
            "actual_cmp_seq_kvlen": CMP,
            "actual_sel_seq_kvlen": SEL,
            "causal": True,
            "q_offset": (0, 0),
        }
    if name == "nsa_selected_attention":
        return {
            **attention,
            "key": draw(T, N2, D),
            "value": draw(T, N2, DV),
            "topk_indices": indices(),
            **select,
            "actual_seq_qlen": SEQ,
            "actual_seq_kvlen": SEQ,
            "causal": True,
            "q_offset": (0, 0),
        }
    if name == "flash_attention_score":
        return {
            "query": draw(T, N1, D),
            "key": draw(T, N2, D),
            "value": draw(T, N2, DV),
            "head_num": N1,
            "scalar_value": 0.25,
            "input_layout": "TND",
            "sparse_mode": 3,
            "actual_seq_qlen": SEQ,
            "actual_seq_kvlen": SEQ,
            "sink": draw(N1),
        }
    if name == "block_indexer":
        return {
            "query": draw(T, N1, D),
            "key": draw(T, N2, D),
            "weights": draw(T, N1),
            "score": "max",
            "block_size": 16,
            "block_count": 3,
            "scale": 0.25,
            "init_blocks": 1,
            "local_blocks": 1,
            "actual_seq_qlen": SEQ,
            "actual_seq_kvlen": SEQ,
            "q_offset": (0, 0),
        }
    raise KeyError(name)


OPERATORS = (
    "nsa_compress",
    "nsa_compress_attention",
    "nsa_selected_attention",
    "flash_attention_score",
)
# Their outputs are indices.
WITHOUT_GRADIENT = ("block_indexer",)


def call(name, **changes):
    """The first output of a good call, changed."""
    outputs = getattr(mindspore_nsa, name)(**{**arguments(name), **changes})
    return outputs[0] if isinstance(outputs, tuple) else outputs


class Block(ms.nn.Cell):
    """A small layer through every operator: what a training network does with them."""

    def __init__(self, heads=N2, dim=D):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.enter = ms.nn.Dense(heads * dim, heads * dim, weight_init="normal")
        self.leave = ms.nn.Dense(heads * dim, 4, weight_init="normal")
        self.weight = ms.Parameter(Tensor(np.full((16, heads), 1 / 16, np.float32)), name="weight")
        self.sink = ms.Parameter(Tensor(np.zeros(heads, np.float32)), name="sink")

    def construct(self, x, seq):
        n = self.heads
        h = self.enter(x).reshape((-1, n, self.dim))
        k = mindspore_nsa.nsa_compress(h, self.weight, 16, 8, actual_seq_len=seq, num_windows=12)
        compressed, chosen, _, _ = mindspore_nsa.nsa_compress_attention(
            h, k, k, 0.25, n, 16, 8, 16, 3, actual_seq_qlen=seq, causal=True, init_blocks=1,
            local_blocks=1)  # fmt: skip
        selected, _, _ = mindspore_nsa.nsa_select_attention(
            h, h, h, chosen, 0.25, n, 16, 3, actual_seq_qlen=seq, actual_seq_kvlen=seq,
            causal=True)  # fmt: skip
        window = mindspore_nsa.flash_attention_score(
            h, h, h, n, scalar_value=0.25, input_layout="TND", sparse_mode=4, pre_tokens=16,
            next_tokens=0, actual_seq_qlen=seq, actual_seq_kvlen=seq, sink=self.sink)  # fmt: skip
        return self.leave((compressed + selected + window).reshape((-1, n * self.dim)))


class Loss(ms.nn.Cell):
    """Cross entropy of a Block."""

    def __init__(self, block):
        super().__init__()
        self.block = block
        self.loss = ms.nn.CrossEntropyLoss()

    def construct(self, x, seq, target):
        return self.loss(self.block(x, seq).astype(ms.float32), target)


def batch(tokens=T):
    """Input, and target of a Block."""
    target = np.random.default_rng(1).integers(0, 4, tokens).astype(np.int32)
    return draw(tokens, N2 * D), Tensor(target)


def sequence(*values):
    return Tensor(values, ms.int64)


def seeded(cell=Block, **arguments):
    """A Cell whose parameters are the same every time."""
    ms.set_seed(1)
    np.random.seed(1)
    return cell(**arguments)
