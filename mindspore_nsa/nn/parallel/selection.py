"""The selected branch over gathered keys that are not kept for the backward."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ...ops._by_device import split
from ...ops.nsa_selected_attention import selected_attention, selected_attention_gradient
from ..config import NSAConfig
from ..precision import ExplicitPrecision
from .collectives import GatherRows


class SelectedFromShards(ExplicitPrecision):
    """The selected branch of own queries; its backward gathers keys and values again.

    Of every layer only the own part of them is kept, and the forward's bytes travel once more. A
    Cell with a gradient of its own does that in both modes; `Cell.recompute` does not in a graph.

    Args:
        config (NSAConfig): That of the layer.
        scale (float): Factor of the scores.
        shards (ContextShards): Who has which tokens.
    """

    def __init__(self, config: NSAConfig, scale: float, shards: Any) -> None:
        super().__init__()
        self.rows = GatherRows(shards.group)
        self.passes = shards.layout.passes
        c = config
        self.sizes = scale, c.num_heads, c.select_block_size, c.select_block_count

    def _split_passes(self, x: Tensor) -> Any:
        if self.passes == 1:
            return (x,)
        m = x.shape[0] // 2
        if x.dtype != mindspore.bfloat16:
            return split(x, m, 0)
        first, second = split(ops.cast(x, mindspore.float32), m, 0)
        return ops.cast(first, x.dtype), ops.cast(second, x.dtype)

    def _concat_passes(self, passes: Any) -> Any:
        if len(passes) == 1:
            return passes[0]
        dtype = passes[0].dtype
        wide = mindspore.float32
        return ops.cast(ops.concat((ops.cast(passes[0], wide), ops.cast(passes[1], wide))), dtype)

    def construct(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        blocks: Any,
        order: Any,
        ends: Any,
        queries: Any,
        offsets: Any,
    ) -> tuple[Any, ...]:
        """(attention, softmax_max, softmax_sum) of own queries [L, N1, D].

        `key` and `value` are own ones, `order` is that of the text, all are Tensors; the last two
        are tuples with a list for every pass.
        """
        scale, heads, size, count = self.sizes
        keys, values = self.rows.gathered(key, order), self.rows.gathered(value, order)
        query, blocks = self._split_passes(query), self._split_passes(blocks)
        out: tuple[Any, ...] = ()
        largest: tuple[Any, ...] = ()
        total: tuple[Any, ...] = ()
        for i in range(self.passes):
            result = selected_attention(
                query[i],
                keys,
                values,
                blocks[i],
                scale,
                heads,
                size,
                count,
                None,
                queries[i],
                ends,
                True,
                offsets[i],
                False,
            )
            out, largest, total = out + (result[0],), largest + (result[1],), total + (result[2],)
        return self._concat_passes(out), self._concat_passes(largest), self._concat_passes(total)

    def bprop(
        self,
        query: Any,
        key: Any,
        value: Any,
        blocks: Any,
        order: Any,
        ends: Any,
        queries: Any,
        offsets: Any,
        result: Any,
        dout: Any,
    ) -> tuple[Any, ...]:
        """Gradients of queries, keys and values."""
        scale, heads, size, count = self.sizes
        keys, values = self.rows.gathered(key, order), self.rows.gathered(value, order)
        rows, dtype = key.shape[0], key.dtype
        query, of_blocks = self._split_passes(query), self._split_passes(blocks)
        out, largest, total = map(self._split_passes, result)
        slopes = self._split_passes(dout[0])
        dq: tuple[Any, ...] = ()
        dk, dv = 0, 0
        for i in range(self.passes):
            one = selected_attention_gradient(
                (out[i], largest[i], total[i]),
                slopes[i],
                query[i],
                keys,
                values,
                of_blocks[i],
                scale,
                heads,
                size,
                count,
                None,
                queries[i],
                ends,
                True,
                offsets[i],
                False,
            )
            dq = dq + (one[0],)
            dk = dk + ops.cast(one[1], mindspore.float32)
            dv = dv + ops.cast(one[2], mindspore.float32)
        return (
            self._concat_passes(dq),
            self.rows.returned(dk, order, rows, dtype),
            self.rows.returned(dv, order, rows, dtype),
            ops.zeros_like(blocks),
            ops.zeros_like(order),
            ops.zeros_like(ends),
            tuple([ops.zeros_like(x) for x in queries]),
            tuple([ops.zeros_like(x) for x in offsets]),
        )
