"""Caches keep of an attention layer's earlier tokens what the later ones read.

A cache is a tuple of Tensors, which a graph takes as an argument and writes in place: the lengths
of the rows, int64 [B], an int8 Tensor whose size is the capacity, and for every name of a layer's
`holds` the float32 rows [B places, width]. Within a call it is another tuple, by the places below,
whose Tensors follow what was written to them.
"""

import mindspore
import numpy as np
from mindspore import Tensor, ops
from mindspore.common.dtype import TensorType

from ..ops._in_place import is_view
from ..ops._plan import DTYPE_NAMES, Planner, TensorSpec, fail_type, is_constant, shown
from ._cache_rows import mark_written, write_rows

LENGTHS, SLOTS, FIRST = range(3)
_FIRST_DTYPES = mindspore.int64, mindspore.int8
# Within a call; Tensors by the order of the names follow.
NAMES, CAPACITY, BATCH, TENSORS = range(4)

# How many places a row has of what a layer keeps, as its kind and its size say.
WHOLE_BLOCKS, ENTRIES, RING, WINDOW = "tokens", "entries", "ring", "window"


def places_of(kind, size, capacity):
    """Places of a row of `capacity` tokens.

    Args:
        kind: WHOLE_BLOCKS: all tokens, in whole blocks of `size`, so that a page holds no part of
            one; ENTRIES: one for `size` tokens; RING: `size`; WINDOW: the last `size` but one.
        size: See there.
        capacity: Most tokens of a row.
    """
    if kind == WHOLE_BLOCKS:
        return -(-capacity // size) * size
    if kind == ENTRIES:
        return max(capacity // size, 1)
    if kind == RING:
        return size
    return max(min(size, capacity) - 1, 1)


def _sizes(holds):
    return ", ".join(f"{name} {kind} {size} x {width}" for name, kind, size, width in holds)


class LayerCache(tuple):
    """The tokens of the rows of a batch, made by `new_cache` of a layer.

    The layer appends to the rows in place. A row can be emptied, but not go back: what a compressor
    has pooled is gone. It is a tuple of Tensors, so that a graph takes it as an argument, and those
    of several layers under `mindspore.mutable`; one graph serves all caches of the same sizes.

    Args:
        tensors (tuple): As the module's text says.
        layer (str): Name of the layer.
        holds (tuple): What a layer keeps: name, kind, size and width of each.
    """

    # Else a graph would take the Tensors for constants.
    __ms_mutable__ = True

    def __new__(cls, tensors, layer, holds):
        """See the class."""
        cache = super().__new__(cls, tensors)
        cache.layer, cache.holds = layer, holds
        return cache

    def __deepcopy__(self, memo):
        """Another cache with the same tokens; a Tensor's own deepcopy shares its memory."""
        return type(self)((tensor.copy() for tensor in self), self.layer, self.holds)

    def __reduce__(self):
        """A pickle has the arrays."""
        return _loaded, (tuple(tensor.asnumpy() for tensor in self), self.layer, self.holds)

    @property
    def capacity(self):
        """Most tokens of a row, an int."""
        return self[SLOTS].shape[0]

    @property
    def batch(self):
        """Number of rows, an int."""
        return self[LENGTHS].shape[0]

    @property
    def lengths(self):
        """Tokens of every row now, a Tensor of int64, shape :math:`(B,)`."""
        return Tensor(self[LENGTHS].asnumpy().copy())

    @property
    def nbytes(self):
        """Bytes of all Tensors, an int."""
        return sum(tensor.nbytes for tensor in self)

    def __repr__(self):
        """One line with the layer, the capacity and the lengths."""
        lengths = self[LENGTHS].asnumpy()
        return f"LayerCache({self.layer}, capacity={self.capacity}, lengths={lengths})"

    def reset(self, rows=None):
        """Empty rows, for other sequences to begin in them.

        Args:
            rows (Union[list[int], tuple[int]], optional): Numbers of the rows.
                Default: ``None``, all.
        """
        lengths = self[LENGTHS].asnumpy().copy()
        lengths[slice(None) if rows is None else list(rows)] = 0
        # In place, where a graph that holds the Tensor sees it, too.
        ops.assign(self[LENGTHS], Tensor(lengths))


def _loaded(arrays, layer, holds):
    return LayerCache(map(Tensor, arrays), layer, holds)


def make_cache(layer, batch, capacity, holds):
    """An empty cache, after the checks of its sizes."""
    for name, value in (("batch", batch), ("max_length", capacity)):
        if type(value) is not int:
            raise TypeError(f"{layer}.new_cache: {name} must be an int, got {shown(value)}")
        if value < 1:
            raise ValueError(f"{layer}.new_cache: {name} must be at least 1, got {value}")
    rows = [np.zeros(batch, np.int64), np.zeros(capacity, np.int8)]
    for _, kind, size, width in holds:
        rows.append(np.zeros((batch * places_of(kind, size, capacity), width), np.float32))
    return LayerCache(map(Tensor, rows), layer, holds)


class _Given(tuple):
    """Specs of a cache's Tensors, its layer and what that keeps, None for these if not known."""

    __slots__ = ()


class _CachePlanner(Planner):
    """A planner that sees the Tensors of a cache."""

    def __call__(self, name, holds, cache):
        if isinstance(cache, (tuple, list)) and all(isinstance(t, Tensor) for t in cache):
            for tensor in cache:
                if is_view(tensor):
                    raise ValueError(
                        f"{name}: cache must be of Tensors that are no views of others: it is "
                        "written in place, and MindSpore passes a copy of a view, got one of shape "
                        f"{tensor.shape}"
                    )
            specs = tuple(TensorSpec((t.dtype, t.shape, None)) for t in cache)
            of_layer = isinstance(cache, LayerCache)
            known = (cache.layer, cache.holds) if of_layer else (None, None)
            cache = _Given((specs, *known))
        return super().__call__(name, holds, cache)

    def _abstract(self, i, arg):
        dtypes, shapes, values = arg["dtype"], arg["shape"], arg["value"]
        if self.names[i] != "cache" or not isinstance(dtypes, (tuple, list)):
            return super()._abstract(i, arg)
        if not all(isinstance(dtype, TensorType) for dtype in dtypes):
            return super()._abstract(i, arg)
        if not isinstance(values, (tuple, list)):
            values = (None,) * len(dtypes)
        specs = []
        for dtype, shape, value in zip(dtypes, shapes, values, strict=True):
            spec = super()._abstract(i, {"dtype": dtype, "shape": shape, "value": value})
            specs.append(TensorSpec((*spec[:2], is_constant(value))))
        return _Given((tuple(specs), None, None))


def _plan_cache(name, holds, cache):
    if not isinstance(cache, _Given):
        fail_type(name, "cache", "what new_cache gives", cache)
    specs, layer, held = cache
    if any(spec.content for spec in specs):
        raise ValueError(
            f"{name}: cache must be an argument of the graph, several of them a tuple under "
            "mindspore.mutable, got constants, to which a graph writes in vain"
        )
    expected = f"{name}: cache must be one of a layer of the same sizes, {_sizes(holds)}"
    if layer is not None and (layer, held) != (name, holds):
        raise ValueError(f"{expected}, got one of {layer}, {_sizes(held)}")
    if len(specs) != FIRST + len(holds):
        raise ValueError(f"{expected}, got one of {len(specs)} Tensors")
    if any(spec.shape is None or -1 in spec.shape for spec in specs):
        raise ValueError(f"{name}: cache must be of Tensors whose shapes a graph knows")
    for spec, which, dtype in zip(specs, ("lengths", "slots"), _FIRST_DTYPES):
        if spec.dtype != dtype:
            raise TypeError(
                f"{name}: cache must have {which} of dtype {DTYPE_NAMES[dtype]}, got "
                f"{spec.native()[0]}"
            )
        if len(spec.shape) != 1:
            raise ValueError(f"{expected}, got {which} of shape {spec.shape}")
    batch, capacity = specs[LENGTHS].shape[0], specs[SLOTS].shape[0]
    for spec, (which, kind, size, width) in zip(specs[FIRST:], holds):
        if spec.dtype != mindspore.float32:
            raise TypeError(
                f"{name}: cache must be of dtype float32, got a copy of {which} in "
                f"{spec.native()[0]}, as mixed precision of the Cell around makes it"
            )
        if spec.shape != (batch * places_of(kind, size, capacity), width):
            raise ValueError(f"{expected}, got {which} of shape {spec.shape}")
    return tuple(which for which, *_ in holds), capacity, batch


def check_cache(name, holds, cache):
    """Names of what a cache holds, its capacity and its rows, or the error of a wrong one."""
    return _plan_the_cache(name, holds, cache)


_plan_the_cache = _CachePlanner(_plan_cache, check_cache, kept=256)


def opened(name, holds, cache):
    """A cache as it stands within a call."""
    names, capacity, batch = check_cache(name, holds, cache)
    mark_written(name, cache)
    return (names, capacity, batch) + tuple(cache[FIRST:])


def _plan_number(names, name):
    return TENSORS + names.index(name)


def _number(names, name):
    return _plan_the_number(names, name)


_plan_the_number = Planner(_plan_number, _number, kept=256)


def kept(cache, name):
    """The rows [B places, width] of what a cache holds."""
    return cache[_number(cache[NAMES], name)]


def places_in(cache, name):
    """Places of every row."""
    return kept(cache, name).shape[0] // cache[BATCH]


def pages(cache, name):
    """The rows as pages [B, places, 1, width], and the table of a page for each."""
    tensor, batch = kept(cache, name), cache[BATCH]
    table = ops.cast(ops.expand_dims(ops.arange(batch), 1), mindspore.int32)
    return ops.reshape(tensor, (batch, -1, 1, tensor.shape[1])), table


def with_rows(cache, name, index, values):
    """The cache with values [n, ..., width] in the rows `index` int64 [n], -1 for nowhere."""
    number = _number(cache[NAMES], name)
    tensor = cache[number]
    values = ops.reshape(ops.cast(values, mindspore.float32), (-1, tensor.shape[1]))
    # Readers of the Tensor from here on come after the write.
    after = ops.depend(tensor, write_rows(tensor, index, values))
    return cache[:number] + (after,) + cache[number + 1 :]


def with_tokens(cache, name, text, values):
    """The cache with values [T, ..., width] of the tokens of a call at their positions."""
    _, positions, rows, _, _ = text
    return with_rows(cache, name, rows * places_in(cache, name) + positions, values)
