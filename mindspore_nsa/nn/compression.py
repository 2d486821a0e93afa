"""Learned compression of keys or values."""

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, ops

from ..ops import nsa_compress
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

    Inputs:
        - **x** (Tensor) - Shape :math:`(T, N_2, dim)`.
        - **ends** (Union[tuple[int], Tensor]) - Inclusive prefix sums of the documents' lengths.
        - **rows** (Union[int, None]) - Rows of the output, or None for :math:`T // s`.
        - **dtype** (mindspore.dtype) - What the operands of the sums are rounded to.

    Outputs:
        Tensor, shape :math:`(rows, N_2, dim)`, dtype float32. Rows past the windows mean nothing.

    Supported Platforms:
        ``CPU``
    """

    def __init__(self, config, dim):
        super().__init__()
        self.size, self.stride = config.compress_block_size, config.compress_stride
        dtype = getattr(mindspore, config.param_dtype)
        shape = (self.size, config.num_kv_heads)
        mean = np.full(shape, 1 / self.size, np.float32)
        self.weight = Parameter(Tensor(mean).astype(dtype), name="weight")
        zeros = np.zeros((*shape, dim), np.float32)
        self.position = Parameter(Tensor(zeros).astype(dtype), name="position")

    def construct(self, x, ends, rows, dtype):
        """See the class."""
        weight = ops.cast(self.weight, mindspore.float32)
        out = nsa_compress(
            ops.cast(x, dtype),
            ops.cast(weight, dtype),
            self.size,
            self.stride,
            actual_seq_len=ends,
            num_windows=rows,
        )
        # The encodings are a window of their own.
        offset = nsa_compress(
            ops.cast(self.position, mindspore.float32),
            weight,
            self.size,
            self.size,
            actual_seq_len=(self.size,),
        )
        return ops.cast(out, mindspore.float32) + offset
