"""Attention over parts of the keys, merged by softmax_max and softmax_sum, as calls of MindSpore.

Tensors are [T, N, D] of one sequence. An operator here is a function of query, key, value and the
range of keys that it sees, which gives the output and the two statistics.
"""

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

import mindspore_nsa

T, N1, N2, D = 96, 4, 2, 16
BLOCK = 16
# Blocks and tokens of every query in order, so that a range of keys is a range of places.
BLOCKS = Tensor(np.tile(np.arange(T // BLOCK, dtype=np.int32), (T, N2, 1)))
TOKENS = Tensor(np.tile(np.arange(T, dtype=np.int32), (T, N2, 1)))
HIDDEN = np.triu(np.ones((T, T), np.bool_), 1)
HALVES, THIRDS = ((0, 48), (48, 96)), ((0, 16), (16, 80), (80, 96))


def flash(query, key, value, first, past):
    """Query i sees keys up to i. Some queries see none of a later part."""
    return mindspore_nsa.flash_attention_score(
        query, key[first:past], value[first:past], N1, scalar_value=0.25, input_layout="TND",
        actual_seq_qlen=(T,), actual_seq_kvlen=(past - first,), sparse_mode=0,
        next_tokens=-first, return_softmax=True)  # fmt: skip


def selected(query, key, value, first, past):
    """Attend to a range of keys by blocks."""
    count = (past - first) // BLOCK
    return mindspore_nsa.nsa_selected_attention(
        query, key, value, BLOCKS[:, :, first // BLOCK : past // BLOCK], 0.25, N1, BLOCK, count,
        actual_seq_qlen=(T,), actual_seq_kvlen=(T,), causal=True)  # fmt: skip


def compressed(query, key, value, first, past):
    """Attend to a range of keys with a mask."""
    out, _, top, total = mindspore_nsa.nsa_compress_attention(
        query, key[first:past], value[first:past], 0.25, N1, BLOCK, BLOCK, BLOCK, 2,
        atten_mask=Tensor(HIDDEN[:, first:past]), actual_seq_qlen=(T,),
        actual_cmp_seq_kvlen=(past - first,))  # fmt: skip
    return out, top, total


def sparse(query, key, value, first, past):
    """Attend to a range of keys by tokens that are listed one by one."""
    out, *statistics = mindspore_nsa.sparse_flash_attention(
        query, key, value, TOKENS[:, :, first:past], 0.25, layout_query="TND", layout_kv="TND",
        actual_seq_lengths_query=(T,), actual_seq_lengths_kv=(T,),
        return_softmax_lse=True)  # fmt: skip
    # [N2, T, G] as the other operators have them.
    rows = (ops.reshape(ops.transpose(x, (1, 0, 2)), (T, N1, 1)) for x in statistics)
    top, total = (ops.broadcast_to(x, (T, N1, 8)) for x in rows)
    return out, top, total


OPERATORS = {"flash": flash, "selected": selected, "compressed": compressed, "sparse": sparse}


def operands(dtype=ms.float32):
    """query, key, value"""
    rng = np.random.default_rng(3)
    shapes = (T, N1, D), (T, N2, D), (T, N2, D)
    return tuple(Tensor(rng.standard_normal(s).astype(np.float32)).astype(dtype) for s in shapes)


def logarithm(top, total):
    """[T, N, 1]: max + ln sum, from one of the eight equal values."""
    return top[:, :, :1] + ops.log(total[:, :, :1])


def merged(operator, parts):
    """A function of query, key and value: the output of the parts of the keys together."""

    def forward(query, key, value):
        outs, logs = [], []
        for first, past in parts:
            out, top, total = operator(query, key, value, first, past)
            outs.append(ops.cast(out, ms.float32))
            logs.append(logarithm(top, total))
        shift = logs[0]
        for log in logs[1:]:
            shift = ops.maximum(shift, log)
        shift = ops.stop_gradient(shift)
        weights, weighted = 0.0, 0.0
        for out, log in zip(outs, logs):
            weight = ops.exp(log - shift)
            weights, weighted = weights + weight, weighted + weight * out
        return weighted / weights

    return forward


def whole(operator):
    """Attend to all keys in one call."""

    def forward(query, key, value):
        return ops.cast(operator(query, key, value, 0, T)[0], ms.float32)

    return forward


def slopes(forward):
    """The gradients by query, key and value of a sum that weighs every element differently."""
    weights = Tensor(np.random.default_rng(4).standard_normal((T, N1, D)).astype(np.float32))

    def loss(query, key, value):
        return (forward(query, key, value) * weights).sum()

    return ms.grad(loss, (0, 1, 2))


def dense_logarithm(query, key):
    """max + ln sum of the causal scores, by MindSpore's operators."""
    keys = ops.repeat_interleave(ops.cast(key, ms.float32), N1 // N2, 1)
    scores = 0.25 * ops.matmul(
        ops.transpose(ops.cast(query, ms.float32), (1, 0, 2)), ops.transpose(keys, (1, 2, 0))
    )
    scores = ops.masked_fill(scores, Tensor(HIDDEN), -1e30)
    return ops.transpose(ops.logsumexp(scores, (2,), True), (1, 0, 2))
