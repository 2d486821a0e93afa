"""Learned compression of keys or values."""

from typing import Any

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, ops

from ..ops import nsa_compress
from ..ops._custom import constant
from .config import NSAConfig
from .precision import ExplicitPrecision


class Compression(ExplicitPrecision):
    r"""Windows of tokens to single tokens, with a position encoding inside the window.

    .. math::
        out[c, h] = \sum_{j < l} weight[j, h] \cdot (x[c s + j, h] + position[j, h])

    The weights start at :math:`1 / l`, the mean of a window, and the encodings at 0. The encoding
    adds the same vector to every compressed token, so it matters for keys only where these are
    rotated afterwards (paper equation (7), with a linear map).

    Args:
        config (NSAConfig): Its compress_block_size, compress_stride, num_kv_heads, param_dtype.
        dim (int): Size of a head.
        interleaved (bool, optional): Whether neighbours in an encoding are for elements of `x` that
            stand half a head apart. Default: ``False``.

    Inputs:
        - **x** (Tensor) - Shape :math:`(T, N_2, dim)`.
        - **ends** (Union[tuple[int], Tensor]) - Inclusive prefix sums of the documents' lengths.
        - **rows** (Union[int, None]) - Rows of the output, or None for :math:`T // s + 1`, where
          :math:`T` is not known when a graph is compiled; `ends` is a Tensor then.
        - **dtype** (mindspore.dtype) - What the operands of the sums are rounded to.

    Outputs:
        Tensor, shape :math:`(rows, N_2, dim)`, dtype float32. Rows past the windows mean nothing.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import mindspore as ms
        >>> from mindspore_nsa.nn import Compression, NSAConfig
        >>> config = NSAConfig(hidden_size=64, num_heads=2, num_kv_heads=1, head_dim=4,
        ...                    compress_block_size=4, compress_stride=2, select_block_size=4)
        >>> x = ms.ops.arange(6, dtype=ms.float32).reshape(6, 1, 1) * ms.ops.ones((6, 1, 4))
        >>> print(Compression(config, 4)(x, (6,), 2, ms.float32)[:, 0])
        [[1.5 1.5 1.5 1.5]
         [3.5 3.5 3.5 3.5]]
    """

    def __init__(self, config: NSAConfig, dim: int, interleaved: bool = False) -> None:
        super().__init__()
        self.interleaved = interleaved
        self.size, self.stride = config.compress_block_size, config.compress_stride
        dtype = getattr(mindspore, config.param_dtype)
        shape = (self.size, config.num_kv_heads)
        mean = np.full(shape, 1 / self.size, np.float32)
        self.weight = Parameter(Tensor(mean).astype(dtype), name="weight")
        zeros = np.zeros((*shape, dim), np.float32)
        self.position = Parameter(Tensor(zeros).astype(dtype), name="position")
        self.padding = constant(np.zeros((self.stride, config.num_kv_heads, dim), np.float32))

    def reset_parameter(self) -> None:
        """Give the parameters the values that they start with."""
        for parameter, value in ((self.weight, 1 / self.size), (self.position, 0)):
            filled = np.full(parameter.shape, value, np.float32)
            parameter.set_data(Tensor(filled).astype(parameter.dtype))

    def encodings(self) -> Any:
        """The positions' encodings in float32, in the order of the elements of `x`."""
        position = ops.cast(self.position, mindspore.float32)
        if self.interleaved:
            shape = ops.shape(position)
            pairs = ops.reshape(position, (shape[0], shape[1], shape[2] // 2, 2))
            position = ops.reshape(ops.transpose(pairs, (0, 1, 3, 2)), shape)
        return position

    def construct(self, x: Tensor, ends: Any, rows: Any, dtype: Any) -> tuple[Tensor, Tensor]:
        """See the class."""
        if self.amp_dtype is not None:
            dtype = self.amp_dtype
        weight = ops.cast(self.weight, mindspore.float32)
        if rows is None:
            # A document of s more tokens, or fewer than s tokens would give no row at all, and
            # MindSpore's operators have no gradient for empty tensors.
            x = ops.concat((ops.cast(x, mindspore.float32), self.padding))
            ends = ops.concat((ends, ends[-1:] + self.stride))
        out = nsa_compress(
            ops.cast(x, dtype),
            ops.cast(weight, dtype),
            self.size,
            self.stride,
            actual_seq_len=ends,
            num_windows=rows,
        )
        if dtype != mindspore.float32:
            # On target "ascend" nsa_compress takes 16 bits, to which the offset is not rounded.
            offset = ops.sum(ops.expand_dims(weight, 2) * self.encodings(), 0, True)
            return ops.cast(out, mindspore.float32) + offset
        # One operator, of which a graph under `recompute` has no cycle, as MindSpore finds one with
        # a product and a sum; and none that mixed precision would cast, as a matrix product.
        offset = nsa_compress(
            self.encodings(),
            weight,
            self.size,
            self.stride,
            actual_seq_len=(self.size,),
            num_windows=1,
        )
        return ops.cast(out, mindspore.float32) + offset
