"""Programs use the operators on MindSpore's device Ascend in other ways than by calling them.

python -m mindspore_nsa.twin run -m tests.cann.usage FILE NAME ...

writes {name: what it gave, or the text of its error} to the file, after each of them, so that a
process that ends tells by which.
"""

import pickle
import re
import sys
import tempfile
import threading
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.graph.api import ms_compile_cache

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


@use
def vmap():
    """Over a batch of packed texts."""
    x = Tensor(np.stack([draw(ENDS[-1], 4, 16, seed=seed).asnumpy() for seed in range(2)]))

    def of_row(row):
        return attention(row, row, row)

    return tuple(to_numpy(ms.vmap(of_row)(x)))


class Batches(nn.Cell):
    """Attention of whole texts, and its gradient, of a shape that may be unknown."""

    def construct(self, q, k, v):
        return mindspore_nsa.flash_attention_score(
            *(q, k, v, 4), input_layout="BSND", scalar_value=0.25, sparse_mode=2
        )


class BatchesGradient(nn.Cell):
    def __init__(self):
        super().__init__()
        self.batches = Batches()
        self.gradient = ops.GradOperation(get_all=True)

    def construct(self, q, k, v):
        return self.gradient(self.batches)(q, k, v)


@use
def dynamic_shapes():
    """`set_inputs` with sizes that are known at each call."""
    found = []
    for mode, cell in (("graph", Batches()), ("graph", BatchesGradient()), ("pynative", Batches())):
        cell.set_inputs(*[Tensor(shape=[None, None, 4, 16], dtype=ms.float16)] * 3)
        with context_mode(mode):
            for length in (33, 48, 33):
                out = cell(*(draw(2, length, 4, 16, seed=seed) for seed in range(3)))
                found += to_numpy(out) if isinstance(out, tuple) else [to_numpy(out)]
    return found


@use
def lists_that_change():
    found = ()
    for mode in ("pynative", "graph", "jit_O0"):
        with context_mode(mode):
            function = in_mode(mode, attention)
            for ends in ((48,), (20, 48), (10, 20, 48), (20, 48)):
                found += (to_numpy(function(*operands(), ends)),)
    return found


@use
def packings_are_compiled_once():
    """In PyNative mode, whatever the lengths and the number of documents, with the gradient."""
    packings = [(20, 48), (48,), (5, 6, 30, 48), (1, 2, 3, 47, 48), (16, 32, 48)]
    found, graphs = (), None
    for ends in packings:

        def energy_of(q, k, v, ends=ends):
            return ops.square(attention(q, k, v, ends).astype(ms.float32)).sum()

        found += (to_numpy(attention(*operands(), ends)), *gradients(energy_of))
        graphs = len(ms_compile_cache) if graphs is None else graphs
    return (*found, np.array(len(ms_compile_cache) - graphs))


@use
def packings_of_one_graph():
    """Lists that are Tensors, given or computed in the graph, int32 and int64, with the gradient.

    A Tensor input of the function follows its lists.
    """
    sink = Tensor(np.linspace(-1, 1, 4).astype(np.float32))

    def energy_of(q, k, v, lengths, sink):
        ends = ops.cumsum(lengths, 0)
        out = attention(q, k, v, ends, sink=sink)
        later = attention(out, k, v, ends.astype(ms.int64))
        return ops.square(later.astype(ms.float32)).sum()

    gradient = ms.jit(ms.grad(energy_of, (0, 1, 2, 4)), jit_level="O0")
    found, graphs = (), None
    for lengths in ((20, 28, 0), (48, 0, 0), (1, 2, 45), (16, 16, 16)):
        found += to_numpy(gradient(*operands(), Tensor(lengths, ms.int32), sink))
        graphs = len(ms_compile_cache) if graphs is None else graphs
    return (*found, np.array(len(ms_compile_cache) - graphs))


@use
def wrong_lists_of_a_graph():
    """The sentence of the error, which comes when the graph runs; the next graph is another."""
    found = ()
    for ends in ((20, 47), (30, 20), (20, 48)):
        function = ms.jit(attention, jit_level="O0")
        try:
            found += (to_numpy(function(*operands(), Tensor(ends))),)
        except RuntimeError as error:
            found += (re.search(r"flash_attention_score: [^;\n]*", str(error))[0],)
    return found


@use
def tensor_lists_outside_of_graphs():
    """In PyNative mode, of host and device; there are as many windows as any values may need."""
    x, weight = draw(96, 2, 32), draw(32, 2)
    found = ()
    for values in ((40, 96), (33, 96)):
        for ends in (Tensor(values), Tensor(values, ms.int32) + 0):
            out = mindspore_nsa.nsa_compress(x, weight, 32, 16, actual_seq_len=ends)
            found += (to_numpy(out),)
    return found


class Packed(nn.Cell):
    def construct(self, q, k, v):
        return attention(q, k, v)


@use
def mindir():
    """An exported graph, loaded again."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/packed.mindir"
        ms.export(Packed(), *operands(), file_name=file, file_format="MINDIR")
        with context_mode("graph"):
            return to_numpy(nn.GraphCell(ms.load(file))(*operands())), *gradients(energy)


@use
def error_of_the_caller():
    """An exception between two calls of a step."""
    found = (to_numpy(attention(*operands())),)

    def step(q, k, v):
        out = attention(q, k, v)
        if out.shape[0] == ENDS[-1]:
            raise ArithmeticError("of the caller")
        return out.sum()

    try:
        gradients(step)
    except ArithmeticError as error:
        found += (str(error),)
    return (*found, to_numpy(attention(*operands())), *gradients(energy))


@use
def two_threads():
    """In PyNative mode, where each call is a graph of its own, with new ones in between."""
    found, errors = {}, []

    def work(number):
        try:
            for i in range(3):
                ends = (4 * (number + 2 * i) + 1, ENDS[-1])
                found[number, i] = to_numpy(attention(*operands(), ends))
        except Exception as error:  # the main thread tells of it
            errors.append(str(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return tuple(found[key] for key in sorted(found))


@use
def operators_of_mindspore():
    """Calls of MindSpore's own operator, which are CANN's function there and ours here."""
    blocks = 32, 16
    own = ops if ms.get_context("device_target") == "Ascend" else mindspore_nsa
    weight = draw(blocks[0], 2)
    results = [
        own.nsa_compress(draw(256, 2, 64, seed=seed), weight, *blocks, actual_seq_len=[128, 256])
        for seed in range(3)
    ]
    return tuple(map(to_numpy, results))


def main(uses, file, *names):
    found = {}
    for name in names:
        try:
            found[name] = uses[name]()
        except Exception as error:  # the other process tells of it
            found[name] = f"{type(error).__name__}: {error}"[:2000]
        Path(file).write_bytes(pickle.dumps(found))
        print(name, flush=True)


if __name__ == "__main__":
    ms.set_device("Ascend")
    main(USES, *sys.argv[1:])
