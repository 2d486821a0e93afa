"""A worker's part of a text, as the rows that its layer computes with."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ..parts import LayerPart
from ..precision import rounded
from .context import whole_only
from .shard_lists import row_positions


class SharedText(LayerPart):
    """The text of a layer with a context; the functions are those of `WholeText`."""

    def given(self, x: Tensor, actual_seq_len: Any, cache: Any, padding: Any) -> tuple[Any, ...]:
        """(x, prefix sums, what `ContextKeys.plan` says), or the error of a wrong call."""
        layer = self.layer
        whole_only(layer.name, cache is not None, padding is not None)
        return x, actual_seq_len, layer.context.plan(x, actual_seq_len)

    def rows(
        self, x: Tensor, actual_seq_len: Any, plan: Any, padding: Any, dtype: Any, narrow: bool
    ) -> tuple[Any, ...]:
        """(own rows [L, hidden], (layout, tables, lists), positions)."""
        layer = self.layer
        layout, tables, digest, lists = plan
        rows = x
        if not narrow:
            rows = ops.reshape(ops.cast(x, mindspore.float32), (-1, layer.hidden))
            if layer.amp_dtype is not None:
                rows = rounded(rows, dtype)
        if layer.enter is not None:
            rows = layer.enter(rows)
        rows = layer.context.checked(layer.context.arranged(rows, layout), digest, lists)
        return rows, (layout, tables, lists), row_positions(lists)

    def returned(self, attended: Any, shard: Any) -> Any:
        """Attention in the order of the rows of x."""
        return self.layer.context.returned(attended, shard[0])

    def padded(self, out: Any, padding: Any) -> Any:
        """The output in the form of x, which has no padding."""
        return out
