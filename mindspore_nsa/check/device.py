"""Tensors of one dtype on MindSpore's device, and results as the tolerance rule takes them."""

import numpy as np

from mindspore_nsa.testing.case import Case, output_dtypes
from mindspore_nsa.testing.dtypes import encode


class Device:
    """Draws arrays that every dtype holds exactly, and runs functions of them.

    Args:
        dtype (str): ``"float32"``, ``"float16"`` or ``"bfloat16"``.
        seed (int): Of the values.
    """

    def __init__(self, dtype, seed=0):
        import mindspore

        self.ms, self.dtype = mindspore, dtype
        self._rng = np.random.default_rng(seed)

    def draw(self, *shape):
        """An array of eighths from -1 to 1."""
        return self._rng.integers(-8, 9, shape).astype(np.float32) / 8

    def permuted(self, count):
        """The numbers below `count` in random order, as int32."""
        return self._rng.permutation(count).astype(np.int32)

    def tensor(self, array):
        """A Tensor of the dtype that is checked; integers keep theirs."""
        tensor = self.ms.Tensor(array)
        if np.issubdtype(array.dtype, np.integer):
            return tensor
        return tensor.astype(getattr(self.ms, self.dtype))

    def array(self, tensor):
        """A Tensor's values; bfloat16 widened to float32, integers as they are."""
        if tensor.dtype in (self.ms.int32, self.ms.int64):
            return tensor.asnumpy()
        return tensor.astype(self.ms.float32).asnumpy()

    def run(self, function, arrays):
        """The outputs of a function of Tensors."""
        return self._arrays(function(*map(self.tensor, arrays)))

    def gradients(self, function, arrays, upstream):
        """The gradients of all arrays, for an output gradient of the first output."""
        weights = self.ms.Tensor(upstream)

        def total(*tensors):
            out = function(*tensors)
            out = out[0] if isinstance(out, tuple) else out
            return (out.astype(self.ms.float32) * weights).sum()

        places = tuple(range(len(arrays)))
        return self._arrays(self.ms.grad(total, places)(*map(self.tensor, arrays)))

    def _arrays(self, outputs):
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return [self.array(output) for output in outputs]

    def case(self, op, named, attrs, outputs):
        """(the native call, its outputs): what `mindspore_nsa.testing.case.compare` takes.

        Arrays of `named` that are float32 get the dtype that is checked, but for statistics of the
        softmax and gates, which the operators take in float32.
        """
        kept = ("softmax_max", "softmax_sum", "gates")

        def native(name, x):
            if isinstance(x, tuple):
                return np.array(x, np.int64)
            return encode(x, self.dtype) if x.dtype == np.float32 and name not in kept else x

        case = Case.of(op, {n: native(n, x) for n, x in named.items()}, attrs, self.dtype, "check")
        return case, [encode(x, dtype) for x, dtype in zip(outputs, output_dtypes(case))]
