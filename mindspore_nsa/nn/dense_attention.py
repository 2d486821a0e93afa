"""Dense attention with the interface of the sparse layer."""

from typing import Any

from mindspore import Tensor

from ..ops._plan import fail_type
from ..ops._types import IntList
from .attention import AttentionLayer
from .branches import Branches
from .cache import AttentionCache
from .config import NSAConfig
from .parallel.branches import ShardBranches, ShardDense
from .parallel.groups import WorkerGroup
from .parallel.shards import ContextShards

UNBOUNDED = 2147483647


class DenseAttention(AttentionLayer):
    """Causal attention over all earlier tokens of the document, or over the last ones.

    The interface is that of `NativeSparseAttention`, so a model changes between them with one word;
    the fields of the configuration that concern compression and selection have no effect.

    Args:
        config (NSAConfig): Sizes.
        window (bool, optional): Whether a query sees only the last `config.window_size` tokens, its
            own included. Default: ``False``.
        context (ContextShards, optional): Workers that share a text, as for
            `NativeSparseAttention`. Default: ``None``.
        tensor_group (WorkerGroup, optional): Workers that share the heads. Default: ``None``.

    Inputs:
        - **x** (Tensor) - Shape :math:`(B, S, hidden)` or packed :math:`(T, hidden)`, dtype
          float16, bfloat16 or float32.
        - **actual_seq_len** (Union[tuple[int], list[int], Tensor], optional) - For packed `x`, the
          inclusive prefix sums of the documents' lengths. Default: ``None``.
        - **cache** (AttentionCache, optional) - What `new_cache` gave, as for
          `NativeSparseAttention`. Default: ``None``.
        - **key_padding_mask** (Tensor, optional) - Which tokens of a batch are padding, as for
          `NativeSparseAttention`. Default: ``None``.

    Outputs:
        Tensor, the shape and dtype of `x` (under mixed precision its dtype).

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.
        RuntimeError: If that is found out only when a compiled graph runs.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.nn import DenseAttention, NSAConfig
        >>> config = NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> layer = DenseAttention(config)
        >>> print(layer(Tensor(np.ones((2, 100, 64), np.float32))).shape)
        (2, 100, 64)
    """

    def __init__(
        self,
        config: NSAConfig,
        window: bool = False,
        context: ContextShards | None = None,
        tensor_group: WorkerGroup | None = None,
    ) -> None:
        super().__init__(config, 1, context, tensor_group)
        if not isinstance(window, bool):
            fail_type(self.name, "window", "a bool", window)
        if not window:
            self.pre_tokens = UNBOUNDED
        kind: Any = Branches
        if context is not None:
            kind = ShardBranches if window else ShardDense
        self.branches = kind(self)

    def construct(
        self,
        x: Tensor,
        actual_seq_len: IntList | None = None,
        cache: AttentionCache | None = None,
        key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        """See the class."""
        x, ends, plan = self.text.given(x, actual_seq_len, cache, key_padding_mask)
        self.projections.check()
        self.cache_step.check(cache)
        dtype, kinds = self.operand_dtype(x), self.projections.kinds
        narrow = cache is None and self.projections.multiply_narrow(x, dtype, kinds)
        rows, text, positions = self.text.rows(x, ends, plan, key_padding_mask, dtype, narrow)
        if cache is not None:
            out = self.cache_step.attend(x, rows, text, cache, dtype, kinds)
        else:
            # A graph with a Tensor list warns of a name that nobody reads.
            query, key_value = self.projections.project(rows, dtype, kinds)[:2]
            heads = self.branch_heads.by_branch(query, key_value, positions, dtype, kinds)
            out = self.branches.window(*heads[0], text, dtype)
        out = self.projections.output(self.text.returned(out, text), x, dtype, narrow, kinds)
        return self.text.padded(out, key_padding_mask)
