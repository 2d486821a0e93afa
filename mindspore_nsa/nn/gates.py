"""Gates that mix the branches."""

import mindspore
from mindspore import ops

from ..ops._layer import nsa_mix_branches
from .precision import ExplicitPrecision, Projection, rounded

BRANCHES = 3


class Gates(ExplicitPrecision):
    r"""Sum of the three branches, each weighted by a gate per token and head.

    The gates are the sigmoid of a linear map of the layer's input; they do not compete (paper
    equation (5)).

    Args:
        config (NSAConfig): Its hidden_size, num_heads, has_bias and param_dtype.

    Inputs:
        - **x** (Tensor) - The layer's input, shape :math:`(T, hidden)`.
        - **compressed**, **selected**, **window** (Tensor) - Outputs of the branches,
          shape :math:`(T, N_1, D_v)`.
        - **dtype** (mindspore.dtype) - What the operands of the linear map are rounded to, and the
          sum.

    Outputs:
        Tensor, shape :math:`(T, N_1, D_v)`, dtype float32, with values of `dtype`.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import mindspore as ms
        >>> from mindspore_nsa.nn import Gates, NSAConfig
        >>> gates = Gates(NSAConfig(hidden_size=8, num_heads=2, num_kv_heads=1, head_dim=4))
        >>> x, ones = ms.ops.zeros((3, 8)), ms.ops.ones((3, 2, 4))
        >>> print(gates(x, ones, 2 * ones, 3 * ones, ms.float32)[0, 0])  # every gate is 1 / 2
        [3. 3. 3. 3.]
    """

    def __init__(self, config):
        super().__init__()
        self.heads = config.num_heads
        self.linear = Projection(config, config.hidden_size, BRANCHES * self.heads)

    def logits(self, x, dtype):
        """Those of the gates, float32 [T, 3 heads], of an x with values of `dtype`."""
        return ops.cast(self.linear(x, dtype), mindspore.float32)

    def weights(self, logits):
        """The gates, float32 [T, 3, heads]."""
        return ops.reshape(ops.sigmoid(logits), (-1, BRANCHES, self.heads))

    def mix(self, logits, compressed, selected, window, dtype, result=mindspore.float32):
        """The weighted sum of branches of `dtype`, with its values, in it or in float32."""
        mixed = nsa_mix_branches(logits, compressed, selected, window, result)
        if mixed is not None:
            return mixed
        gates = ops.expand_dims(self.weights(logits), -1)
        g_cmp, g_slc, g_win = ops.unbind(gates, 1)
        mixed = (
            g_cmp * ops.cast(compressed, mindspore.float32)
            + g_slc * ops.cast(selected, mindspore.float32)
            + g_win * ops.cast(window, mindspore.float32)
        )
        return rounded(mixed, dtype)

    def construct(self, x, compressed, selected, window, dtype):
        """See the class."""
        return self.mix(
            self.logits(rounded(x, dtype), dtype),
            ops.cast(compressed, dtype),
            ops.cast(selected, dtype),
            ops.cast(window, dtype),
            dtype,
        )
