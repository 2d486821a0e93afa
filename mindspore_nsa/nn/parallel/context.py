"""A layer's keys under a context: from those of own tokens to those that own queries may see."""

from typing import Any

from mindspore import Tensor, ops

from ...ops._by_device import split
from ...ops._plan import Planner
from ..config import NSAConfig
from ..precision import ExplicitPrecision
from .collectives import Agreement, Extend, GatherByIndex, GatherInOrder, moved_dtype
from .shard_call import planned_shard
from .shard_lists import (
    check_lists,
    compressed_lists,
    compression_lists,
    documents_of,
    row_positions,
    window_lists,
)
from .shards import TokenText, context_sizes

# Primitives, as in collectives.py.
_cast, _reshape, _transpose = ops.Cast(), ops.Reshape(), ops.Transpose()
_joined, _beside = ops.Concat(), ops.Concat(1)


def is_lists(value: Tensor) -> bool:
    """Whether this is what `ContextShards.lists` makes, a tuple of Tensors. Part of graphs, too."""
    if isinstance(value, (tuple, list)):
        if len(value) > 0:
            return isinstance(value[0], Tensor)
    return False


class ContextKeys(ExplicitPrecision):
    """Exchanges of one layer.

    Keys and values travel side by side where that saves an exchange; those of the selection, which
    are most, travel as they are.

    Args:
        name (str): The layer, in messages.
        shards (ContextShards): Who has which tokens.
        config (Union[NSAConfig, TokenText]): That of the layer.
        tensors (bool): Whether all lists are to be Tensors.
    """

    def __init__(
        self, name: str, shards: Any, config: NSAConfig | TokenText, tensors: bool = False
    ) -> None:
        super().__init__()
        self.tensors = tensors
        self.name, self.hidden = name, config.hidden_size
        self.key, self.sizes = shards.key, context_sizes(config)
        group = shards.group
        self.agreement = Agreement(name, group)
        self.text = GatherInOrder(group, shards.layout.passes)
        self.by_index = GatherByIndex(group, shards.layout.passes)
        self.extend = Extend(group)
        self.direct = self.extend.direct

    def plan(self, x: Tensor, given: Any) -> Any:
        """(ShardLayout, GatherTables, digest, lists) of a call, or the error of a wrong input."""
        if is_lists(given):
            check_lists(
                self.name,
                len(given),
                positions=row_positions(given),
                windows=compression_lists(given)[1],
                taken=compressed_lists(given)[0],
                keys=window_lists(given)[1],
                context=self.key,
                sizes=self.sizes,
            )
            layout, tables, digest, _ = planned_shard(
                self.name, x, "lists", self.hidden, self.key, self.sizes, self.tensors, self.direct
            )
            return layout, tables, digest, given
        return planned_shard(
            self.name, x, given, self.hidden, self.key, self.sizes, self.tensors, self.direct
        )

    def checked(self, x: Tensor, digest: Any, lists: Any) -> Any:
        """x, after all workers have been found to call alike."""
        return self.agreement(x, digest, documents_of(lists))

    def _transposed(self, x: Tensor, first: Any, second: Any, m: Any) -> Any:
        """Rows [first * second * m, ...] by the second number, then by the first."""
        dtype = x.dtype
        x = _reshape(_cast(x, moved_dtype(dtype)), (first, second, m, -1))
        x = _reshape(_transpose(x, (1, 0, 2, 3)), (first * second * m, -1))
        return _cast(x, dtype)

    def arranged(self, x: Tensor, layout: Any) -> Any:
        """Own rows by pass, then document."""
        passes, batch, m = layout
        return x if passes == 1 or batch == 1 else self._transposed(x, batch, passes, m)

    def returned(self, x: Tensor, layout: Any) -> Any:
        """Own rows by document, then pass: the inverse of `arranged`."""
        passes, batch, m = layout
        return x if passes == 1 or batch == 1 else self._transposed(x, passes, batch, m)

    def all_gather(self, x: Tensor, tables: Any) -> Any:
        """Rows of all workers in the order of the text; to be cast for every use."""
        if tables.text is None:
            return self.text(x)
        return self.by_index(x, tables.text, tables.text)

    def _side_by_side(self, key: Tensor, value: Tensor) -> Any:
        """Keys and values [n, N, D] in one matrix of a dtype that travels."""
        dtype = moved_dtype(key.dtype)
        rows = key.shape[0]
        key = _reshape(_cast(key, dtype), (rows, -1))
        return _beside((key, _reshape(_cast(value, dtype), (rows, -1))))

    def _apart(self, both: Any, key: Tensor, value: Tensor) -> tuple[Any, ...]:
        """Such a matrix as keys and values of the sizes of these."""
        heads, dim = key.shape[1:]
        value_dim = value.shape[2]
        key, value = split(both, (heads * dim, heads * value_dim), 1)
        return _reshape(key, (-1, heads, dim)), _reshape(value, (-1, heads, value_dim))

    def _extended(self, key: Tensor, value: Tensor, table: Any) -> Any:
        if table is None:
            return key, value
        given, taken, ids, sent, received = table
        both = self.extend(self._side_by_side(key, value), given, taken, ids, sent, received)
        return self._apart(both, key, value)

    def window(self, key: Tensor, value: Tensor, tables: Any) -> tuple[Any, ...]:
        """Keys and values of own chunks with the rows before each, in their dtype."""
        dtype = key.dtype
        key, value = self._extended(key, value, tables.before)
        return _cast(key, dtype), _cast(value, dtype)

    def windows(self, key: Tensor, value: Tensor, tables: Any) -> Any:
        """Return what the compression reads: own chunks with the rows after each."""
        return self._extended(key, value, tables.after)

    def compressed(self, key: Tensor, value: Tensor, lists: Any) -> Any:
        """Compressed rows of all workers in the order of the text; to be cast for every use."""
        taken, ids = compressed_lists(lists)
        both = self.by_index(self._side_by_side(key, value), taken, ids)
        return self._apart(both, key, value)

    def split_passes(self, x: Tensor, layout: Any) -> tuple[Any, ...]:
        """Rows of every pass."""
        if layout.passes == 1:
            return (x,)
        dtype, m = x.dtype, x.shape[0] // 2
        first, second = split(_cast(x, moved_dtype(dtype)), m, 0)
        return _cast(first, dtype), _cast(second, dtype)

    def concat_passes(self, passes: Any) -> Any:
        """The rows of all passes, from those of each."""
        if len(passes) == 1:
            return passes[0]
        dtype = moved_dtype(passes[0].dtype)
        joined = _joined((_cast(passes[0], dtype), _cast(passes[1], dtype)))
        return _cast(joined, passes[0].dtype)


def _plan_whole(name: str, cache: Any, padding: Any) -> None:
    if cache:
        raise ValueError(
            f"{name}: cache must be None in a layer with a context, whose workers have parts of a "
            "text each; generate with a layer without one, of the same parameters"
        )
    if padding:
        raise ValueError(
            f"{name}: key_padding_mask must be None in a layer with a context: pack the documents "
            "and pad the text (ContextShards.pad)"
        )


def whole_only(name: str, cache: Any, padding: Tensor) -> Any:
    """Raises the error of what a layer with a context does not take."""
    return _plan_whole_only(name, cache, padding)


_plan_whole_only = Planner(_plan_whole, whole_only)
