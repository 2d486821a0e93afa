"""The attentions of a layer over a text that several workers share."""

from typing import Any

from mindspore import Tensor, ops

from ..branches import compress
from ..parts import LayerPart
from .shard_lists import (
    compressed_ends,
    compression_lists,
    dense_pass_lists,
    document_ends,
    pass_lists,
    window_lists,
)


class ShardBranches(LayerPart):
    """The branches of own queries over the keys that own and other workers' tokens give.

    Functions take a `shard`: what `ContextKeys.plan` says of a call, (layout, tables, lists).

    Args:
        layer (AttentionLayer): The layer, whose exchanges, compression and angles these are.
    """

    def compressed(
        self, query: Tensor, key: Tensor, value: Tensor, shard: Any, dtype: Any
    ) -> tuple[Any, ...]:
        """Attention over compressed tokens of the text, and the blocks of every pass."""
        layer = self.layer
        layout, tables, lists = shard
        keys = layer.context
        windows, positions = compression_lists(lists)
        key, value = keys.windows(key, value, tables)
        rows = positions.shape[0]
        key, value = compress(layer, key, value, windows, rows, positions, dtype)
        key, value = keys.compressed(key, value, lists)
        kv_ends, queries = compressed_ends(lists), keys.split_passes(query, layout)
        out: tuple[Any, ...] = ()
        chosen: tuple[Any, ...] = ()
        for i in range(layout.passes):
            ends, offsets = pass_lists(lists, i)
            k, v = ops.cast(key, dtype), ops.cast(value, dtype)
            one, blocks = layer.attention.over_compressed(queries[i], k, v, ends, kv_ends, offsets)
            out, chosen = out + (one,), chosen + (blocks,)
        return keys.concat_passes(out), chosen

    def selected(
        self, query: Tensor, key: Tensor, value: Tensor, blocks: Any, shard: Any, dtype: Any
    ) -> Tensor:
        """Attention over the blocks of every pass."""
        layer = self.layer
        layout, tables, lists = shard
        keys = layer.context
        kv_ends = document_ends(lists)
        if layer.again is not None:
            return self._gathered_again(query, key, value, blocks, shard)
        key, value = keys.all_gather(key, tables), keys.all_gather(value, tables)
        queries = keys.split_passes(query, layout)
        out: tuple[Any, ...] = ()
        for i in range(layout.passes):
            ends, offsets = pass_lists(lists, i)
            k, v = ops.cast(key, dtype), ops.cast(value, dtype)
            one = layer.attention.over_blocks(queries[i], k, v, blocks[i], ends, kv_ends, offsets)
            out = out + (one,)
        return keys.concat_passes(out)

    def _gathered_again(
        self, query: Tensor, key: Tensor, value: Tensor, blocks: Any, shard: Any
    ) -> Tensor:
        """Attention over own keys and those that a Cell gathers once more in its backward."""
        layout, tables, lists = shard
        ends: tuple[Any, ...] = ()
        offsets: tuple[Any, ...] = ()
        for i in range(layout.passes):
            of_pass = pass_lists(lists, i)
            ends, offsets = ends + (of_pass[0],), offsets + (of_pass[1],)
        if len(blocks) > 1:
            blocks = (ops.concat(blocks),)
        again = self.layer.again
        kv_ends = document_ends(lists)
        return again(query, key, value, blocks[0], tables.text, kv_ends, ends, offsets)[0]

    def window(self, query: Tensor, key: Tensor, value: Tensor, shard: Any, dtype: Any) -> Any:
        """Attention over the last tokens."""
        _, tables, lists = shard
        key, value = self.layer.context.window(key, value, tables)
        ends, kv_ends = window_lists(lists)
        return self.layer.attention.over_window(query, key, value, ends, kv_ends)


class ShardDense(LayerPart):
    """Attention over all earlier tokens, of which `window` is the name in a layer.

    Args:
        layer (AttentionLayer): The layer, whose exchanges these are.
    """

    def window(self, query: Tensor, key: Tensor, value: Tensor, shard: Any, dtype: Any) -> Any:
        """Attention over all earlier tokens."""
        keys = self.layer.context
        layout, tables, lists = shard
        key, value = keys.all_gather(key, tables), keys.all_gather(value, tables)
        queries = keys.split_passes(query, layout)
        out: tuple[Any, ...] = ()
        for i in range(layout.passes):
            ends, kv_ends = dense_pass_lists(lists, i)
            k, v = ops.cast(key, dtype), ops.cast(value, dtype)
            out = out + (self.layer.attention.over_window(queries[i], k, v, ends, kv_ends),)
        return keys.concat_passes(out)
