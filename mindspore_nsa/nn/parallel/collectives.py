"""Collectives with gradients of our own: the only place that knows device and group.

MindSpore's CPU backend has AllReduce, and AllGather among all workers; the rest is made of these.
The gradient of its AllReduce sums once more, and AllGather has none there. Of rows for neighbours
Ascend has NeighborExchange, which only graphs take, and AlltoAllV, which is used here.

Every worker must run the same collectives in the same order, in the backward too. Graphs of all
workers are alike therefore: what differs between them is the content of constants, and a Cell here
exchanges in its gradient whether or not this worker has a use for it.
"""

import json
import zlib
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops

from ...ops._by_device import split, take_rows, zeros_like
from ...ops._custom import constant
from ..precision import ExplicitPrecision
from .groups import on_cpu

_FULL = mindspore.float32
# Primitives: a graph takes in the source of every function of `ops`, which costs memory, and what
# its compilation leaves behind is a fifth of a worker with few tokens.
_cast, _reshape, _joined = ops.Cast(), ops.Reshape(), ops.Concat()
_summed, _beside = ops.UnsortedSegmentSum(), ops.Concat(1)


def moved_dtype(dtype: Any) -> Any:
    """In which dtype rows travel: a CPU's collectives and sums of rows take no bfloat16."""
    return _FULL if on_cpu() else dtype


class Gather(ExplicitPrecision):
    """Rows of all workers of a group, one worker after another; no gradient."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.size = group.size
        self.direct = group.world or not on_cpu()
        # Among some workers of a CPU: the sum of rows that all but one hold as zeros. It is exact,
        # but that -0.0 becomes 0.0.
        if self.size > 1:
            self.collective = (ops.AllGather if self.direct else ops.AllReduce)(group=group.name)
        mine = np.zeros((self.size, 1), np.float32)
        mine[group.rank] = 1
        self.mine = constant(mine)

    def construct(self, x: Tensor) -> Any:
        """[n, ...] to [size * n, ...]."""
        if self.size == 1:
            return x
        if self.direct:
            return self.collective(x)
        shape = x.shape
        # A product of zero with infinity would be NaN, and so is a choice.
        flat = _reshape(x, (1, -1))
        flat = ops.select(
            ops.broadcast_to(self.mine > 0, (self.size, flat.shape[1])),
            ops.broadcast_to(flat, (self.size, flat.shape[1])),
            ops.zeros((self.size, flat.shape[1]), x.dtype),
        )
        return _reshape(self.collective(flat), (self.size * shape[0],) + shape[1:])


class Scatter(ExplicitPrecision):
    """A worker's own rows of the sum over the group of what all have of all rows; no gradient."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.size = group.size
        self.direct = not on_cpu()
        if self.size > 1:
            kind = ops.ReduceScatter if self.direct else ops.AllReduce
            self.collective = kind(group=group.name)
        # An index, not a slice, so that graphs of all workers are alike.
        self.own = constant(np.array([group.rank], np.int64))

    def construct(self, x: Tensor) -> Any:
        """[size * n, ...] to [n, ...]."""
        if self.size == 1:
            return x
        total = self.collective(x)
        if self.direct:
            return total
        shape = x.shape
        own = take_rows(_reshape(total, (self.size, -1)), self.own)
        return _reshape(own, (shape[0] // self.size,) + shape[1:])


class GatherRows(ExplicitPrecision):
    """Rows of all workers, in an order: keys for every query.

    The gradients of all workers are summed in float32.

    Args:
        group (WorkerGroup): The workers.
        passes (int): How often the rows are used: with more than one they stay in the dtype in
            which they travel, because a CPU does not add up the gradients of others.
    """

    def __init__(self, group: Any, passes: int = 1) -> None:
        super().__init__()
        self.wide = passes > 1
        self.gather, self.scatter = Gather(group), Scatter(group)
        self.size = group.size

    def gathered(self, x: Tensor, order: Any) -> Any:
        """See `construct`."""
        y = self.gather(_cast(x, moved_dtype(x.dtype)))
        if order is not None:
            y = take_rows(y, order)
        return y if self.wide else _cast(y, x.dtype)

    def returned(self, dy: Any, ids: Any, rows: Any, dtype: Any) -> Any:
        """The gradient [rows, ...] of x from that of what was gathered."""
        dy = _cast(dy, _FULL)
        if ids is not None:
            dy = _summed(dy, ids, self.size * rows)
        return _cast(self.scatter(dy), dtype)


class GatherInOrder(GatherRows):
    """`GatherRows` where one worker's rows follow another's."""

    def construct(self, x: Tensor) -> Any:
        """[L, ...] to [T, ...]."""
        return self.gathered(x, None)

    def bprop(self, x: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        """Gradient of x."""
        return (self.returned(dout, None, x.shape[0], x.dtype),)


class GatherByIndex(GatherRows):
    """`GatherRows` by the numbers of rows among those of all workers."""

    def construct(self, x: Tensor, taken: Any, ids: Any) -> Any:
        """[n, ...] to [len(taken), ...]; ids are `taken`, or -1 where nothing reads the row."""
        return self.gathered(x, taken)

    def bprop(self, x: Any, taken: Any, ids: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        """Gradient of x, and none of the numbers."""
        dx = self.returned(dout, ids, x.shape[0], x.dtype)
        return dx, zeros_like(taken), zeros_like(ids)


class Extend(ExplicitPrecision):
    """Own rows with those of neighbours, as a `plan.Halo` says."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.direct, self.alone = not on_cpu(), group.size == 1
        self.gather, self.scatter = Gather(group), Scatter(group)
        if self.direct and not self.alone:
            self.collective = ops.AlltoAllV(group=group.name)

    def exchanged(self, rows: Any, sent: Any, received: Any) -> Any:
        """Rows [sum of sent, C] to workers, for rows [sum of received, C] of theirs."""
        if self.alone:
            return rows
        width, total = rows.shape[1], 0
        given: tuple[int, ...] = ()
        taken: tuple[int, ...] = ()
        for i in range(len(sent)):
            given += (sent[i] * width,)
            taken += (received[i] * width,)
            total += received[i]
        found = self.collective(_reshape(rows, (-1,)), given, taken)
        return _reshape(found, (total, width))

    def construct(
        self, x: Tensor, given: Tensor, taken: Any, ids: Any, sent: Any, received: Any
    ) -> Any:
        """x [L, C] to [len(taken), C]; the last two are empty where all get all borders."""
        moved = _cast(x, moved_dtype(x.dtype))
        borders = take_rows(moved, given)
        borders = self.exchanged(borders, sent, received) if self.direct else self.gather(borders)
        return _cast(take_rows(_joined((moved, borders)), taken), x.dtype)

    def bprop(
        self,
        x: Any,
        given: Any,
        taken: Any,
        ids: Any,
        sent: Any,
        received: Any,
        out: Any,
        dout: Any,
    ) -> tuple[Any, ...]:
        """Gradient of x, and none of the numbers."""
        own, came = x.shape[0], self.gather.size * given.shape[0]
        if self.direct:
            came = sum(received)
        pool = _summed(_cast(dout, _FULL), ids, own + came)
        mine, borders = split(pool, (own, came), 0)
        borders = self.exchanged(borders, received, sent) if self.direct else self.scatter(borders)
        mine = mine + _summed(borders, given, own)
        none = zeros_like(given), zeros_like(taken), zeros_like(ids)
        return _cast(mine, x.dtype), none[0], none[1], none[2], sent, received


class Enter(ExplicitPrecision):
    """Pass on what all workers of a tensor group use for their heads; sum the gradients."""

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.collective = ops.AllReduce(group=group.name)

    def construct(self, x: Tensor) -> Any:
        """x."""
        # A Cell that gave its input itself would have no gradient of its own in PyNative mode.
        return _cast(_cast(x, _FULL) * 1, x.dtype)

    def bprop(self, x: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        """The sum over the workers."""
        return (_cast(self.collective(_cast(dout, _FULL)), x.dtype),)


class Sum(ExplicitPrecision):
    """The sum in float32 of what the workers of a tensor group have.

    The gradient is that of the sum.
    """

    def __init__(self, group: Any) -> None:
        super().__init__()
        self.collective = ops.AllReduce(group=group.name)

    def construct(self, x: Tensor) -> Any:
        """Products that have not been rounded, so that their sum is as one worker's."""
        return self.collective(_cast(x, _FULL))

    def bprop(self, x: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        """The gradient of the sum."""
        return (_cast(dout, x.dtype),)


_FIELDS = ("rows of x", "dtype of x", "tokens", "layer", "documents", "actual_seq_len")
_COUNTS = ("rows of x", "tokens", "documents")


def _checksum(value: Tensor) -> Any:
    return zlib.crc32(value.encode() if isinstance(value, str) else value.tobytes())


def _in_floats(*values: Any) -> Any:
    """Integers below 2^40 as pairs of float32 that hold them exactly, [1, 2 values]."""
    return np.array([[half for value in values for half in divmod(value, 2**20)]], np.float32)


def call_digest(rows: Any, dtype: Any, tokens: Any, layer: Any) -> Any:
    """Digest what must be equal on all workers of a call, but for the documents."""
    return _in_floats(rows, _checksum(dtype), tokens, _checksum(layer))


def documents_digest(ends: Any) -> Any:
    """Digest what must be equal on all workers of the documents."""
    return _in_floats(len(ends), _checksum(np.asarray(ends, np.int64)))


class _Compare:
    """Raises an error on every worker where they differ."""

    __name__ = "compare"

    def __init__(self, function: str, group: Any) -> None:
        self.function, self.ranks = function, group.ranks

    def __call__(self, rows: Any) -> Any:
        differing = np.nonzero((rows != rows[:1]).any(1))[0]
        if len(differing) == 0:
            return rows
        first, other = rows[0].reshape(-1, 2), rows[differing[0]].reshape(-1, 2)
        field = int(np.nonzero((first != other).any(1))[0][0])
        values = [int(pair[field] @ (2**20, 1)) for pair in (first, other)]
        kind = "" if _FIELDS[field] in _COUNTS else "checksum "
        raise ValueError(
            f"{self.function}: {_FIELDS[field]} must be the same on all workers of the context "
            f"group, got {kind}{values[0]} on worker {self.ranks[0]} and {kind}{values[1]} on "
            f"worker {self.ranks[differing[0]]}"
        )


class Agreement(ExplicitPrecision):
    """Has workers that were called with what does not fit together find that out.

    Its result has to come before the first exchange of rows, which would wait for ever or mix up
    texts. On a CPU there is an error on every worker. MindSpore calls no Python from a graph
    elsewhere: there the result is NaN on every worker.
    """

    def __init__(self, function: str, group: Any) -> None:
        super().__init__()
        self.gather = Gather(group)
        self.active, self.raises = group.size > 1, on_cpu()
        self.first = constant(np.zeros(1, np.int64))
        compare = _Compare(function, group)

        def call(rows: Any) -> Any:
            return compare(rows)

        if self.active and self.raises:
            self.compare = ops.Custom(call, lambda s: s, lambda t: t, func_type="pyfunc")

    def construct(self, x: Tensor, call: Any, documents: Any) -> Any:
        """x, if what `call_digest` and `documents_digest` made is the same on all workers."""
        if not self.active:
            return x
        rows = self.gather(_beside((call, documents)))
        if self.raises:
            return ops.depend(x, ops.stop_gradient(self.compare(rows)))
        # A slice would be an operator by its type on Ascend, which CANN compiles for each shape.
        apart = ops.reduce_max(ops.abs(rows - take_rows(rows, self.first)))
        # 0 / 1, or else 0 / 0.
        same = ops.cast(apart == 0, _FULL)
        return x + ops.cast(ops.stop_gradient(0 * same / same), x.dtype)


def agree(function: str, name: str, value: Tensor, group: Any) -> None:
    """Raise a ValueError on all workers of a group where they have different values.

    Every one must call it: a host's exchange, for what is decided before anything is computed.
    """
    if group.size == 1:
        return
    text = json.dumps(value, default=str).encode()
    gather = Gather(group)
    digest = np.array([[*divmod(zlib.crc32(text), 2**16), len(text)]], np.float32)
    rows = gather(Tensor(digest)).asnumpy()
    if (rows == rows[:1]).all():
        return
    padded = np.zeros((1, int(rows[:, 2].max())), np.float32)
    padded[0, : len(text)] = np.frombuffer(text, np.uint8)
    texts = gather(Tensor(padded)).asnumpy().astype(np.uint8)
    found = [bytes(row[: int(n)]).decode() for row, n in zip(texts, rows[:, 2])]
    other = next(i for i, one in enumerate(found) if one != found[0])
    first, second = _around_difference(found[0], found[other])
    raise ValueError(
        f"{function}: {name} must be the same on all workers of a group, got {first} on worker "
        f"{group.ranks[0]} and {second} on worker {group.ranks[other]}"
    )


def _around_difference(*texts: Any) -> Any:
    """Texts that differ; of long ones what is around the place."""
    if max(map(len, texts)) <= 1000:
        return texts
    pairs = zip(*(text.ljust(max(map(len, texts))) for text in texts))
    place = max(0, next(i for i, (a, b) in enumerate(pairs) if a != b) - 40)
    return [f"...{text[place : place + 120]}..." for text in texts]
