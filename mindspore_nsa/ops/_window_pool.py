"""Softmax-weighted sums over windows of rows, with a gradient that keeps only inputs and outputs.

Operators with gradients of their own would keep what every step of the softmax made: some six
copies of the rows. Here forward and backward work on pieces of at most 64 MB.
"""

from typing import Any

import mindspore
from mindspore import Tensor, nn, ops

from ._custom import planned_for_graph
from ._plan import Planner

# Bytes of the temporary tensors of a piece; about six of its size are alive at once.
_PIECE = 1 << 26
_ALIVE = 6
# A graph compiles every piece.
_MOST_IN_GRAPH = 32
# A logit of nothing: finite, since infinity less infinity is not a number.
_NOTHING = -1e30


def _plan_pieces(count: Any, width: Any) -> tuple[Any, ...]:
    """(first, end) of every piece of `count` rows of `width` numbers."""
    if count is None or count < 0 or width < 0:
        return ((0, None),)
    each = max(_PIECE // (4 * _ALIVE * max(width, 1)), 1)
    if planned_for_graph.get():
        each = max(each, -(-count // _MOST_IN_GRAPH))
    return tuple((first, min(first + each, count)) for first in range(0, count, each))


def pieces_of_rows(count: int, width: Any) -> Any:
    """(first, end) of pieces of rows."""
    return _planned_rows(count, width)


_planned_rows = Planner(_plan_pieces, pieces_of_rows)


# The gradient of a Cell cannot call ops.zeros_like, which is Python, in a graph.
zeros_like = ops.operations.ZerosLike()


class WindowPool(nn.Cell):
    """Sum over a window of weights softmax(gate + bias), for every channel, times values."""

    def construct(self, values: Any, gate: Tensor, bias: Tensor, index: Tensor) -> Tensor:
        """Entries, and the logarithms of the softmaxes' sums, float32 [2, E, D].

        Args:
            values, gate (Tensor): float32 [R, D].
            bias (Tensor): float32 [m, D].
            index (Tensor): Rows of every window, int32 [E, m], -1 for none; a row stands in it
                at most once. An entry without rows is 0.
        """
        entries, sums = [], []
        for first, end in pieces_of_rows(index.shape[0], index.shape[1] * values.shape[1]):
            part = index[first:end]
            there = ops.expand_dims(part >= 0, 2)
            part = ops.maximum(part, zeros_like(part))
            logits = ops.gather(gate, part, 0) + bias
            logits = ops.where(there, logits, ops.full_like(logits, _NOTHING))
            top = ops.max(logits, 1, True)[0]
            weights = ops.exp(logits - top)
            weights = ops.where(there, weights, zeros_like(weights))
            total = ops.sum(weights, 1)
            total = ops.where(total > 0, total, ops.ones_like(total))
            entries.append(ops.sum(weights * ops.gather(values, part, 0), 1) / total)
            sums.append(top[:, 0] + ops.log(total))
        # One Tensor: level O0 of graphs cannot differentiate a tuple of this Cell.
        return ops.stack((ops.concat(entries, 0), ops.concat(sums, 0)))

    def bprop(
        self, values: Any, gate: Any, bias: Any, index: Any, out: Any, dout: Any
    ) -> tuple[Any, ...]:
        """dvalue = w dout, dgate = w (value - entry) dout, w = exp(gate + bias - sum)."""
        rows, size = values.shape[0], bias.shape[0]
        window, slot = _windows_of_rows(index, rows)
        of_values, of_gate, of_bias = [], [], zeros_like(bias)
        for first, end in pieces_of_rows(rows, values.shape[1]):
            entry, place = window[first:end], slot[first:end]
            there = ops.expand_dims(entry >= 0, 1)
            entry = ops.maximum(entry, zeros_like(entry))
            logits = gate[first:end] + ops.gather(bias, place, 0) - ops.gather(out[1], entry, 0)
            slope = ops.exp(logits) * ops.gather(dout[0], entry, 0)
            slope = ops.where(there, slope, zeros_like(slope))
            of_logits = slope * (values[first:end] - ops.gather(out[0], entry, 0))
            of_values.append(slope)
            of_gate.append(of_logits)
            # A product adds in a fixed order, which a scattered sum does not.
            chosen = ops.expand_dims(ops.arange(size), 1) == ops.expand_dims(place, 0)
            of_bias = of_bias + ops.matmul(ops.cast(chosen, mindspore.float32), of_logits)
        return ops.concat(of_values, 0), ops.concat(of_gate, 0), of_bias, zeros_like(index)


def _windows_of_rows(index: Any, rows: Any) -> tuple[Any, ...]:
    """The window and the place in it of every row [R], -1 and 0 for rows in none."""
    count, size = ops.shape(index)
    places = ops.reshape(ops.where(index >= 0, index, zeros_like(index) + rows), (-1, 1))
    number = ops.cast(ops.arange(count * size), mindspore.int32)
    base = ops.cast(ops.zeros((rows + 1,), mindspore.int32) - 1, mindspore.int32)
    found = ops.tensor_scatter_elements(base, places[:, 0], number)[:rows]
    slot = ops.where(found >= 0, ops.floor_mod(found, size), zeros_like(found))
    return ops.where(found >= 0, ops.floor_divide(found, size), found), slot
