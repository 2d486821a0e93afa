"""A native operator compiled by MindSpore as a graph, called on fixed inputs."""

import mindspore as ms
import numpy as np

from mindspore_nsa import _native
from mindspore_nsa.ops._custom import absent, encode_attrs
from tests.common.dtypes import BFLOAT16, decode, encode

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


def finished(graph, *tensors):
    """The outputs of a compiled graph, when they are there: by itself a call returns at once."""
    outputs = graph(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    # Waits without using the processor and, on a CPU, without a copy.
    outputs[-1].asnumpy()
    return outputs


class Program:
    """Calls the operator of a case, and waits for its outputs."""

    def __init__(self, case):
        given = [name for name, x in case.named().items() if x is not None]
        lists = [item["list"] for item in _native.schema(case.op)["inputs"]]
        custom = probe.timed_custom(case.op, encode_attrs(case.op, case.attrs, given))

        @ms.jit
        def graph(*tensors):
            return custom(*tensors)

        self._graph = graph
        self._tensors = [
            absent("int64" if is_list else "float32") if x is None else tensor(x)
            for x, is_list in zip(case.inputs, lists, strict=True)
        ]

    def __call__(self):
        return finished(self._graph, *self._tensors)

    def arrays(self):
        """The outputs as the binding gives them."""
        return [array(x) for x in self()]
