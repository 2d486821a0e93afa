"""Dense attention with the interface of the sparse layer."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ..ops import flash_attention_score
from ..ops._cache_step import nsa_cache_step
from ..ops._layer import nsa_projection
from ..ops._plan import fail_type
from .attention import ALL, AttentionLayer
from .cache import SELECTED, STATE
from .config import NSAConfig
from .parallel.groups import WorkerGroup
from .parallel.shards import DENSE_KEYS, DENSE_QUERIES, WINDOW_KEYS, WINDOW_QUERIES, ContextShards

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
        self.pre_tokens = config.window_size - 1 if window else UNBOUNDED

    def products(self, x: Tensor, dtype: Any, parts: Any) -> Any:
        """Queries [T, heads * D], and keys and values in one matrix, in float32."""
        y = None
        if parts[ALL]:
            weights = self.query.weight, self.key_value.weight, None
            y = nsa_projection(x, *weights, dtype, mindspore.float32)
        if y is None:
            return self._linear(x, dtype, parts)
        return self.query.biased(y[0]), self.key_value.biased(y[1])

    def step(self, x: Tensor, ends: Any, cache: Any, places: Any, dtype: Any, parts: Any) -> Tensor:
        """Attention [T, num_heads, value_head_dim] of packed x, whose tokens go into the cache."""
        query, both = self.arranged(*self.products(x, dtype, parts))
        query, key, value = self._as_heads(query, both)
        theta, factor, low, high = self.angle_attributes
        return nsa_cache_step(
            query,
            key,
            value,
            cache[places[SELECTED]],
            cache[places[STATE]],
            ends,
            angles=self.angles.coarse,
            fine_angles=self.angles.fine,
            scale_value=self.scale,
            theta=theta,
            rope_factor=factor,
            rope_low=low,
            rope_high=high,
            window_size=self.pre_tokens + 1,
            layer=self.number(),
        )

    def _flash(self, query: Tensor, key: Tensor, value: Tensor, ends: Any, kv_ends: Any) -> Any:
        return flash_attention_score(
            query,
            key,
            value,
            self.heads,
            actual_seq_qlen=ends,
            actual_seq_kvlen=kv_ends,
            scalar_value=self.scale,
            pre_tokens=self.pre_tokens,
            next_tokens=0,
            input_layout="TND",
            sparse_mode=4,
        )

    def attend(
        self, x: Tensor, ends: Any, cos: Tensor, sin: Tensor, dtype: Any, parts: Any
    ) -> Tensor:
        """Attention [T, num_heads, value_head_dim] of packed x [T, hidden]."""
        query, both = self.products(x, dtype, parts)
        heads = self.branch_heads(query, both, cos, sin, dtype, parts)
        query, key, value = heads[0], heads[3], heads[6]
        return self._flash(query, key, value, ends, ends)

    def attend_shard(
        self,
        x: Tensor,
        numbers: Any,
        tables: Any,
        lists: Any,
        cos: Tensor,
        sin: Tensor,
        dtype: Any,
        parts: Any,
    ) -> Tensor:
        """Attend with own rows x [L, hidden]; the rest comes from `ContextKeys.plan`."""
        keys = self.context
        query, both = self.products(x, dtype, parts)
        heads = self.branch_heads(query, both, cos, sin, dtype, parts)
        query, key, value = heads[0], heads[3], heads[6]
        if self.pre_tokens != UNBOUNDED:
            key, value = keys.window(key, value, tables)
            return self._flash(query, key, value, lists[WINDOW_QUERIES], lists[WINDOW_KEYS])
        key, value = keys.everything(key, tables), keys.everything(value, tables)
        parts = keys.parts(query, numbers)
        out: tuple[Tensor, ...] = ()
        for i in range(numbers[0]):
            queries = keys.of_pass(lists, i, DENSE_QUERIES)
            kv_ends = keys.of_pass(lists, i, DENSE_KEYS)
            k, v = ops.cast(key, dtype), ops.cast(value, dtype)
            out += (self._flash(parts[i], k, v, queries, kv_ends),)
        return keys.whole(out)
