"""Gates that mix the branches."""

import mindspore
from mindspore import ops

from .precision import Float32Cell, Projection


class Gates(Float32Cell):
    r"""Sum of the branches, each weighted by a gate per token and head.

    The gates are the sigmoid of a linear map of the layer's input; they do not compete (paper
    equation (5)).

    Args:
        config (NSAConfig): Its hidden_size, num_heads, has_bias, param_dtype.
        branches (int): Number of branches.

    Inputs:
        - **x** (Tensor) - The layer's input, shape :math:`(T, hidden)`.
        - **outputs** (Tensor) - One per branch, shape :math:`(T, N_1, D_v)`.

    Outputs:
        Tensor, shape :math:`(T, N_1, D_v)`.

    Supported Platforms:
        ``CPU``
    """

    def __init__(self, config, branches=3):
        super().__init__()
        self.heads = config.num_heads
        self.branches = branches
        dtype = getattr(mindspore, config.param_dtype)
        self.linear = Projection(config.hidden_size, branches * self.heads, config.has_bias, dtype)

    def construct(self, x, compressed, selected, window):
        """See the class."""
        dtype = self.dtype_of(x)
        logits = ops.cast(self.linear(x), mindspore.float32)
        gates = ops.reshape(ops.sigmoid(logits), (-1, self.branches, self.heads, 1))
        g_cmp, g_slc, g_win = ops.unbind(gates, 1)
        return ops.cast(g_cmp * compressed + g_slc * selected + g_win * window, dtype)
