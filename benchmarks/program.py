"""A native operator compiled by MindSpore as a graph, called on fixed inputs."""

from copy import copy

import mindspore as ms
import numpy as np
from mindspore import nn

from mindspore_nsa import _native
from mindspore_nsa.ops._custom import absent, encode_attrs
from mindspore_nsa.testing.dtypes import BFLOAT16, decode, encode

from . import probe


def tensor(x):
    """A NumPy array, or ("bfloat16", bits), as a Tensor."""
    if isinstance(x, tuple):
        return ms.Tensor(decode(x), ms.bfloat16)
    return ms.Tensor.from_numpy(np.ascontiguousarray(x))


def array(x):
    """The reverse of `tensor`."""
    if x.dtype == ms.bfloat16:
        return encode(x.astype(ms.float32).asnumpy(), BFLOAT16)
    return x.asnumpy()


class Graph(nn.Cell):
    """A function as a graph.

    It needs GRAPH_MODE. What `ms.jit` compiles runs in another thread, for which that of Python
    waits in a loop (AsyncRQueue::Wait of MindSpore 2.10), which costs time on busy processors.
    """

    def __init__(self, function):
        super().__init__(auto_prefix=False)
        self.function = function

    def construct(self, *tensors):
        return self.function(*tensors)


def compiled(function):
    """The function as a graph, from now on in the mode that graphs run in."""
    ms.set_context(mode=ms.GRAPH_MODE)
    return Graph(function)


def finished(graph, *tensors):
    """The outputs of a compiled graph, when they are there."""
    outputs = graph(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    # On a CPU without a copy.
    outputs[-1].asnumpy()
    return outputs


class Program:
    """Calls the operator of a case, and waits for its outputs."""

    def __init__(self, case):
        given = [name for name, x in case.named().items() if x is not None]
        self._graph = compiled(
            probe.timed_custom(case.op, encode_attrs(case.op, case.attrs, given))
        )
        self._tensors = _tensors(case)

    def on(self, case):
        """A program on this graph with the inputs of another case of equal shapes."""
        other = copy(self)
        other._tensors = _tensors(case)
        return other

    def instead(self, custom):
        """Another Custom on the same inputs."""
        other = copy(self)
        other._graph = compiled(custom)
        return other

    def __call__(self):
        return finished(self._graph, *self._tensors)

    def arrays(self):
        """The outputs as the binding gives them."""
        return [array(x) for x in self()]


def _tensors(case):
    lists = [item["list"] for item in _native.schema(case.op)["inputs"]]
    return [
        absent("int64" if is_list else "float32") if x is None else tensor(x)
        for x, is_list in zip(case.inputs, lists, strict=True)
    ]
