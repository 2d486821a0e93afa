"""Heads of the branches: what stands between a layer's linear maps and its attention."""

from typing import Any

from mindspore import Tensor, ops

from ..ops._by_device import split
from ..ops._layer import nsa_split_heads
from .config import NSAConfig
from .parts import LayerPart


def halves(x: Tensor, dim: int) -> Tensor:
    """Neighbours in the last dimension of x [..., heads * dim] come to stand half a head apart."""
    shape = ops.shape(x)
    pairs = ops.reshape(x, (-1, dim // 2, 2))
    return ops.reshape(ops.transpose(pairs, (0, 2, 1)), shape)


class BranchHeads(LayerPart):
    """Queries, keys and values of every branch from the products of the linear maps.

    Args:
        layer (AttentionLayer): The layer, whose norms and rotation these are.
        config (NSAConfig): Sizes of this worker's heads.
        branches (int): Sets of keys and values, 3 or 1.
    """

    def __init__(self, layer: Any, config: NSAConfig, branches: int) -> None:
        super().__init__(layer)
        self.branches, self.sparse = branches, branches > 1
        self.shared = self.sparse and config.shared_kv
        self.sets = 1 if self.shared else branches
        self.heads, self.kv_heads = config.num_heads, config.num_kv_heads
        self.dim, self.value_dim = config.head_dim, config.value_head_dim
        self.interleaved = config.rope_pairs == "interleaved"
        # One matrix for the keys of all branches, then for their values.
        self.key_width = self.sets * self.kv_heads * self.dim
        self.value_width = self.sets * self.kv_heads * self.value_dim

    def _apart(self, key_value: Any) -> Any:
        """Keys and values."""
        return split(key_value, (self.key_width, self.value_width), -1)

    def normalized(self, query: Tensor, key_value: Any) -> tuple[Any, ...]:
        """Queries and keys after their norms, and pairs half a head apart, as they are rotated."""
        layer = self.layer
        if layer.query_norm is None and layer.key_norm is None and not self.interleaved:
            return query, key_value
        key, value = self._apart(key_value)
        if layer.query_norm is not None:
            query = layer.query_norm(query)
        if layer.key_norm is not None:
            key = layer.key_norm(key)
        if self.interleaved:
            query, key = halves(query, self.dim), halves(key, self.dim)
        return query, ops.concat((key, value), -1)

    def before_rotation(self, query: Tensor, key_value: Any) -> tuple[Any, ...]:
        """Queries [T, N1, D], keys [T, sets * N2, D] and values, as the operator of a cache
        takes them.
        """
        return self._as_heads(*self.normalized(query, key_value))

    def _as_heads(self, query: Tensor, key_value: Any) -> tuple[Any, ...]:
        key, value = self._apart(key_value)
        return (
            ops.reshape(query, (-1, self.heads, self.dim)),
            ops.reshape(key, (-1, self.key_width // self.dim, self.dim)),
            ops.reshape(value, (-1, self.value_width // self.value_dim, self.value_dim)),
        )

    def by_branch(
        self, query: Tensor, key_value: Any, positions: Tensor, dtype: Any, kinds: Any
    ) -> tuple[Any, ...]:
        """(queries, keys, values) [T, heads, dim] of the compressed branch, the selected and the
        window, in `dtype`.

        All but the compression's keys are rotated. With one branch, only the first three count.
        """
        cos, sin = self.layer.angles(positions)
        query, key_value = self.normalized(query, key_value)
        heads = None
        if kinds.own_rotation:
            heads = nsa_split_heads(
                query,
                self._of_every_branch(key_value),
                cos,
                sin,
                dtype=dtype,
                branches=self.branches,
                head_num=self.heads,
                kv_head_num=self.kv_heads,
                head_dim=self.dim,
                value_head_dim=self.value_dim,
            )
        if heads is None:
            heads = self._split(query, key_value, cos, sin, dtype)
        q_cmp, q_slc, q_win, k_cmp, k_slc, k_win, v_cmp, v_slc, v_win = heads
        return (q_cmp, k_cmp, v_cmp), (q_slc, k_slc, v_slc), (q_win, k_win, v_win)

    def _of_every_branch(self, key_value: Any) -> Any:
        """Keys and values for all branches, also where these share them."""
        if not self.shared:
            return key_value
        key, value = self._apart(key_value)
        return ops.concat((key, key, key, value, value, value), -1)

    def _split(
        self, query: Tensor, key_value: Any, cos: Tensor, sin: Tensor, dtype: Any
    ) -> tuple[Any, ...]:
        """Split and rotate heads by MindSpore's operators, in the order of `nsa_split_heads`."""
        layer = self.layer
        query, key, value = self._as_heads(query, key_value)
        if self.shared:
            key, value = ops.concat((key, key, key), 1), ops.concat((value, value, value), 1)
        query = layer.rotate(query, cos, sin)
        # A cast for each: gradients of 16 bits cannot be added everywhere.
        q_cmp, q_slc, q_win = ops.cast(query, dtype), ops.cast(query, dtype), ops.cast(query, dtype)
        value = ops.cast(value, dtype)
        if not self.sparse:
            key = ops.cast(layer.rotate(key, cos, sin), dtype)
            return q_cmp, q_slc, q_win, key, key, key, value, value, value
        n = self.kv_heads
        first, rest = split(key, (n, 2 * n), 1)
        k_slc, k_win = split(ops.cast(layer.rotate(rest, cos, sin), dtype), n, 1)
        v_cmp, v_slc, v_win = split(value, n, 1)
        k_cmp = ops.cast(first, dtype)
        return q_cmp, q_slc, q_win, k_cmp, k_slc, k_win, v_cmp, v_slc, v_win
