"""What programs do with the operators on MindSpore's device Ascend, beside calling them.

python -m mindspore_nsa.twin run -m tests.twin.cann.usage FILE NAME ...

writes {name: what it gave, or the text of its error} to the file, after each of them, so that a
process that ends tells by which.
"""

import pickle
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

import mindspore_nsa
from tests.ops.calls import context_mode, in_mode, to_numpy

USES = {}
ENDS = (20, 48)


def use(function):
    USES[function.__name__] = function
    return function


def draw(*shape, seed=0):
    return Tensor(np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float16))


def operands():
    return tuple(draw(ENDS[-1], 4, 16, seed=seed) for seed in range(3))


def attention(q, k, v, ends=ENDS, **options):
    return mindspore_nsa.flash_attention_score(
        *(q, k, v, 4),
        input_layout="TND",
        actual_seq_qlen=ends,
        actual_seq_kvlen=ends,
        scalar_value=0.25,
        sparse_mode=2,
        **options,
    )


def energy(q, k, v):
    return ops.square(attention(q, k, v).astype(ms.float32)).sum()


def gradients(function, mode="pynative"):
    with context_mode(mode):
        return to_numpy(in_mode(mode, ms.grad(function, (0, 1, 2)))(*operands()))


def _softmax_sum(mode):
    def plain(q, k, v):
        out, _, total = attention(q, k, v, return_softmax=True)
        return out.astype(ms.float32).sum() + total.sum()

    def squares(q, k, v):
        out, _, total = attention(q, k, v, return_softmax=True)
        return ops.square(out.astype(ms.float32)).sum() + ops.square(total).sum()

    return gradients(plain, mode) + gradients(squares, mode)


@use
def softmax_sum_in_graph():
    """Two outputs of one operator have gradients, which meet in one tuple."""
    return _softmax_sum("graph")


@use
def softmax_sum_in_jit():
    return _softmax_sum("jit_O0")


@use
def refused_in_a_gradient():
    """A call that is refused in the middle of a step leaves the steps after it as they were."""

    def refused(q, k, v):
        out = attention(q, k, v)
        return attention(out, k, v, (20, 47)).astype(ms.float32).sum()

    found = ()
    for mode in ("pynative", "jit_O0"):
        for _ in range(2):
            found += gradients(energy, mode)
            try:
                gradients(refused, mode)
            except ValueError as error:
                found += (str(error),)
        found += gradients(energy, mode)
    return found


def main(file, *names):
    found = {}
    for name in names:
        try:
            found[name] = USES[name]()
        except Exception as error:  # the other process tells of it
            found[name] = f"{type(error).__name__}: {error}"[:2000]
        Path(file).write_bytes(pickle.dumps(found))
        print(name, flush=True)


if __name__ == "__main__":
    ms.set_device("Ascend")
    main(*sys.argv[1:])
