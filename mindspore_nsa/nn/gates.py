"""Gates that mix the branches."""

from typing import Any

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, ops

from ..ops._by_device import split
from ..ops._layer import nsa_mix_branches, projects
from .config import GATINGS, NSAConfig
from .parts import Asked, LayerPart
from .precision import (
    OWN,
    WITH_DTYPE,
    ExplicitPrecision,
    Projection,
    given,
    map_kind,
    rounded,
)

BRANCHES = 3


class Gates(ExplicitPrecision):
    r"""Sum of the three branches, each weighted by a gate per token and head.

    The gates are the sigmoid of a linear map of the layer's input; they do not compete (paper
    equation (5)). With `config.gating` ``"residual"`` they are :math:`2 \sigma(z)` for the selected
    branch and :math:`2 \sigma(z) - 1` for the others: where the map gives 0, the sum is the
    selected branch. The parameter `gating`, which is not trained, has a shape of its own for each
    `config.gating`, so that a checkpoint of another one does not load.

    Args:
        config (NSAConfig): Its hidden_size, num_heads, has_bias, gating and param_dtype.

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

    def __init__(self, config: NSAConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.residual = config.gating == "residual"
        self.linear = Projection(config, config.hidden_size, BRANCHES * self.heads)
        # The linear map is alike for every gating. MindSpore refuses a checkpoint only by a
        # parameter of another shape; of names that one side lacks it says little or nothing.
        mark = np.zeros(GATINGS.index(config.gating) + 1, np.float32)
        dtype = getattr(mindspore, config.param_dtype)
        self.gating = Parameter(Tensor(mark).astype(dtype), name="gating", requires_grad=False)
        self.head_splits = {"gating": None}

    def reset_parameter(self) -> None:
        """Draw the parameters of the linear map as when it was made."""
        self.linear.reset_parameter()
        self._fill_zeros(self.gating)

    @Asked
    def linear_kind(self) -> tuple[Any, ...]:
        """How the linear map is called now, and the mark of mixed precision that allows it."""
        kind = map_kind(self.linear, self.amp_dtype)
        return kind, self.linear.amp_dtype if kind == OWN else None

    @Asked
    def own_weights(self) -> bool:
        """Whether the gates follow from logits as here, and not as a subclass says."""
        return type(self).weights is Gates.weights and "weights" not in vars(self)

    def logits(self, x: Tensor, dtype: Any) -> Tensor:
        """Return the gates' logits, float32 [T, 3 heads], for an x with values of `dtype`."""
        kind, mark = self.linear_kind
        if kind == OWN and (mark is None or mark == dtype):
            return ops.cast(self.linear.product(x, dtype), mindspore.float32)
        return ops.cast(self.linear(*given(kind, x, dtype)), mindspore.float32)

    def weights(self, logits: Tensor) -> Tensor:
        """The gates, float32 [T, 3, heads]."""
        gates = ops.reshape(ops.sigmoid(logits), (-1, BRANCHES, self.heads))
        if not self.residual:
            return gates
        g_cmp, g_slc, g_win = split(2 * gates, 1, 1)
        return ops.concat((g_cmp - 1, g_slc, g_win - 1), 1)

    def close(self) -> None:
        """With residual gates: let the sum be the selected branch."""
        for parameter in self.linear.get_parameters():
            self._fill_zeros(parameter)

    def _fill_zeros(self, parameter: Parameter) -> None:
        zeros = np.zeros(parameter.shape, np.float32)
        parameter.set_data(Tensor(zeros).astype(parameter.dtype))

    def mix(
        self,
        logits: Tensor,
        compressed: Tensor,
        selected: Tensor,
        window: Tensor,
        dtype: Any,
        result: Any = mindspore.float32,
    ) -> Tensor:
        """The weighted sum of branches of `dtype`, with its values, in it or in float32."""
        mixed = None
        if self.own_weights:
            mixed = nsa_mix_branches(logits, compressed, selected, window, result, self.residual)
        if mixed is not None:
            return mixed
        g_cmp, g_slc, g_win = split(self.weights(logits), 1, 1)
        shape = (-1, self.heads, 1)
        mixed = (
            ops.reshape(g_cmp, shape) * ops.cast(compressed, mindspore.float32)
            + ops.reshape(g_slc, shape) * ops.cast(selected, mindspore.float32)
            + ops.reshape(g_win, shape) * ops.cast(window, mindspore.float32)
        )
        return rounded(mixed, dtype)

    def construct(
        self, x: Tensor, compressed: Tensor, selected: Tensor, window: Tensor, dtype: Any
    ) -> Tensor:
        """See the class."""
        return self.mix(
            self.logits(rounded(x, dtype), dtype),
            ops.cast(compressed, dtype),
            ops.cast(selected, dtype),
            ops.cast(window, dtype),
            dtype,
        )


class GatedSum(LayerPart):
    """The sum of a layer's branches, by its gates or what stands in their place."""

    def of(
        self,
        x: Tensor,
        logits: Tensor,
        compressed: Tensor,
        selected: Tensor,
        window: Tensor,
        dtype: Any,
        kinds: Any,
    ) -> Any:
        """The branches of the rows x, weighted by the gates and added."""
        gates = self.layer.gates
        if kinds.gates == OWN:
            narrow = kinds.fused and projects(logits, dtype)
            result = dtype if narrow else mindspore.float32
            return gates.mix(logits, compressed, selected, window, dtype, result)
        if kinds.gates == WITH_DTYPE:
            mixed = gates(x, compressed, selected, window, dtype)
        else:
            mixed = gates(x, compressed, selected, window)
        return ops.cast(mixed, mindspore.float32)
