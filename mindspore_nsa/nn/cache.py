"""The cache of an attention layer: what its earlier tokens leave for the later ones."""

import mindspore
import numpy as np
from mindspore import Tensor

from ..ops._plan import FLOATS, Planner, shown

# Positions of the tensors in a cache; a dense layer's has no last one. They are few because a graph
# pays for each of its arguments.
LENGTHS, WRITTEN, SELECTED, OTHERS = range(4)

DENSE_TENSORS, SPARSE_TENSORS = OTHERS, OTHERS + 1

# Tokens that a row can go back although its rings have been full.
ROLLBACK = 64


def _is_int(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


class AttentionCache(tuple):
    """Keys and values of the rows of a batch, made by the `new_cache` of a layer.

    A row has a length of its own; a call ``layer(x, cache=cache)`` writes its new tokens in place
    and raises the length. It is a tuple of Tensors, so that a graph takes it as an argument: rows
    grow, go back and begin anew without a new graph.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.nn import NativeSparseAttention, NSAConfig
        >>> config = NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
        >>> layer = NativeSparseAttention(config)
        >>> cache = layer.new_cache(batch=2, capacity=128)
        >>> x = np.random.randn(2, 100, 64).astype(np.float32)
        >>> _ = layer(Tensor(x), cache=cache)
        >>> print(cache.lengths, cache.capacity)
        [100 100] 128
        >>> cache.truncate([90, 100])
        >>> cache.reset(1)
        >>> print(cache.lengths)
        [90  0]
    """

    # Else a graph would take the Tensors for constants.
    __ms_mutable__ = True

    _rings = ()  # places of the window's and of the compression's ring

    @property
    def lengths(self):
        """Tokens of every row, a Tensor of int64, shape :math:`(B,)`."""
        return self[LENGTHS]

    @property
    def capacity(self):
        """Most tokens of a row, an int."""
        return self[SELECTED].shape[2]

    @property
    def nbytes(self):
        """Bytes of all Tensors, an int."""
        return sum(tensor.nbytes for tensor in self)

    def _rows(self, name, values):
        if isinstance(values, Tensor):
            values = values.asnumpy()
        values = np.asarray(values)
        if values.dtype.kind not in "iu" or values.ndim > 1:
            raise TypeError(f"AttentionCache.{name}: must be ints, one for every row")
        return values.astype(np.int64)

    def truncate(self, lengths):
        """Make rows shorter: what came after is as if it had never been written.

        Args:
            lengths (Union[int, list[int], tuple[int], Tensor]): New length of every row, at most
                its present one.

        Raises:
            TypeError: If `lengths` are not ints.
            ValueError: If a length is negative or longer than the row, or so much shorter that the
                rings of the window and of the open compression windows have lost what comes before
                it. A row whose rings were never full goes back to any length; others by 64 tokens,
                or to 0.
        """
        before, written = self.lengths.asnumpy(), self[WRITTEN].asnumpy().copy()
        after = np.broadcast_to(self._rows("truncate", lengths), before.shape).copy()
        for row, (new, old) in enumerate(zip(after.tolist(), before.tolist(), strict=True)):
            if not 0 <= new <= old:
                raise ValueError(
                    f"AttentionCache.truncate: lengths must be in [0, {old}] for row {row}, "
                    f"got {new}"
                )
            if new == 0:
                written[row] = 0
            lost = written[row] - ROLLBACK
            if self._rings and written[row] > min(self._rings) and new < lost:
                raise ValueError(
                    f"AttentionCache.truncate: lengths must be 0 or at least {lost} for row {row}, "
                    f"which had {written[row]} tokens: its rings hold no older ones, got {new}"
                )
        self[WRITTEN].assign_value(Tensor(written))
        self[LENGTHS].assign_value(Tensor(after))

    def reset(self, rows=None):
        """Empty rows, for other sequences to begin in them.

        Args:
            rows (Union[int, list[int], tuple[int], Tensor], optional): Numbers of the rows.
                Default: ``None``, all.

        Raises:
            TypeError: If `rows` are not ints.
            ValueError: If a row does not exist.
        """
        lengths = self.lengths.asnumpy().copy()
        chosen = np.arange(len(lengths)) if rows is None else self._rows("reset", rows)
        for row in np.atleast_1d(chosen).tolist():
            if not 0 <= row < len(lengths):
                raise ValueError(
                    f"AttentionCache.reset: rows must be in [0, {len(lengths)}), got {row}"
                )
            lengths[row] = 0
        self.truncate(lengths)


def _size(function, name, value):
    if not _is_int(value):
        raise TypeError(f"{function}: {name} must be an int, got {shown(value)}")
    if value < 1:
        raise ValueError(f"{function}: {name} must be at least 1, got {value}")
    return int(value)


def make_cache(layer, config, sparse, batch, capacity, dtype):
    """An empty cache for the sizes of a configuration."""
    function = f"{layer}.new_cache"
    batch, capacity = _size(function, "batch", batch), _size(function, "capacity", capacity)
    dtype = getattr(mindspore, config.param_dtype) if dtype is None else dtype
    if dtype not in FLOATS:
        raise TypeError(
            f"{function}: dtype must be float16, bfloat16 or float32, got {shown(dtype)}"
        )

    def storage(places):
        shape = (batch, config.num_kv_heads, places, config.head_dim + config.value_head_dim)
        return Tensor(np.zeros(shape, np.float32)).astype(dtype)

    tensors = [Tensor(np.zeros(batch, np.int64)), Tensor(np.zeros(batch, np.int64))]
    tensors.append(storage(capacity))
    if not sparse:
        return AttentionCache(tensors)
    l, s = config.compress_block_size, config.compress_stride  # noqa: E741
    rings = tuple(min(capacity, size + ROLLBACK) for size in (config.window_size, l))
    tensors.append(storage(max(1, (capacity - l) // s + 1) + sum(rings)))
    cache = AttentionCache(tensors)
    cache._rings = rings
    return cache


def _plan_room(name, x, lengths, ends, capacity, tensors, expected):
    if tensors != expected:
        raise ValueError(f"{name}: cache must be one that this kind of layer made")
    lengths, ends = lengths.content, getattr(ends, "content", ends)
    if lengths is None or ends is None or len(lengths) != len(ends):
        return True
    before = 0
    for row, (length, end) in enumerate(zip(lengths, ends)):
        if length + end - before > capacity:
            raise ValueError(
                f"{name}: cache must have a capacity for {length + end - before} tokens of row "
                f"{row} (length {length}), got capacity {capacity}"
            )
        before = end
    return True


def check_room(name, x, lengths, ends, capacity, tensors, expected):
    """Raise the error of a full cache where lengths are known: before anything is written."""
    return _plan_check_room(name, x, lengths, ends, capacity, tensors, expected)


_plan_check_room = Planner(_plan_room, "check_room", lists=("lengths", "ends"))
