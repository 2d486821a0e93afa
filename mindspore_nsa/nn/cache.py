"""The cache of an attention layer: what its earlier tokens leave for the later ones."""

import os
from collections.abc import Mapping
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops

from ..ops._by_device import on_ascend
from ..ops._in_place import copy_rows, is_view
from ..ops._plan import DTYPE_NAMES, FLOATS, shown
from ..ops._types import IntList
from .cache_known import remember
from .cache_parts import (
    PARTS,
    array_of,
    check_rows,
    check_shape,
    check_state,
    given_arrays,
    in_bits,
    tensor_of,
    without_process,
)
from .config import NSAConfig

# Positions of the tensors in a cache; a dense layer's has no last one. They are few because a graph
# pays for each of its arguments.
STATE, SELECTED, OTHERS = range(3)

# Every row's state begins with the sizes that a cache was made for, which the shapes of its Tensors
# do not tell apart, and what the angles by which its keys are turned follow from, as the bits of
# float64; a dense layer's has 0 for those of other branches. Then come the dtype of keys and
# values, because mixed precision casts Tensors on their way into a Cell and what is written to the
# copies is lost, the `LayerNumber` whose tokens are in the row (0: of any), the length of the
# row, and the most tokens that it has had since it was empty. As in infer/nsa_cache_step.h.
ANGLES = ("rope_theta", "rope_factor", "rope_low", "rope_high")
SIZES = (
    *("head_dim", "value_head_dim", *ANGLES),
    *("window_size", "compress_block_size", "compress_stride", "shared_kv"),
)
DENSE_SIZES = 6
DTYPE, LAYER = len(SIZES), len(SIZES) + 1
HEADER = LAYER + 1

# infer/op.h has the same numbers.
DTYPES = {42: mindspore.float16, 43: mindspore.float32, 45: mindspore.bfloat16}

# NSAConfig uses these names.
_NAMED = {name: getattr(mindspore, name) for name in ("float16", "bfloat16", "float32")}

# A size of no layer, in what a file says.
_MOST = 2**40

DENSE_TENSORS, SPARSE_TENSORS = OTHERS, OTHERS + 1

# Tokens that a row can go back although its rings have been full.
ROLLBACK = 64


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def angles_of(config: NSAConfig) -> dict[Any, Any]:
    """Return the sizes that decide rotary angles, by the names of `ANGLES`."""
    scaling = config.rope_scaling
    if scaling is None:
        return dict(zip(ANGLES, (config.rope_theta, 1.0, 0.0, 1.0)))
    ramp = scaling.ramp(config.head_dim, config.rope_theta)
    return dict(zip(ANGLES, (config.rope_theta, scaling.factor, *ramp)))


def sizes_of(config: NSAConfig, sparse: bool) -> tuple[Any, ...]:
    """Return the first numbers of the state of a layer's cache."""
    known = SIZES if sparse else SIZES[:DENSE_SIZES]
    angles = angles_of(config)
    sizes = {name: int(getattr(config, name)) for name in known if name not in ANGLES}
    sizes.update((name, int(np.float64(value).view(np.int64))) for name, value in angles.items())
    return tuple(sizes.get(name, 0) for name in SIZES)


def size_text(name: str, value: Any) -> str:
    """How an error writes a size, of which the state holds an angle as the bits of a double."""
    if name in ANGLES:
        value = f"{np.int64(value).view(np.float64):.9g}"
    return f"{name} {value}"


def _to_be_written(tensor: Tensor) -> Any:
    """A new Tensor where the device has its memory: of one on the host it would write a copy."""
    return tensor.move_to("Ascend") if on_ascend() else tensor


def _write(tensor: Tensor, values: Any) -> None:
    """Write values into the memory of a Tensor."""
    if on_ascend():
        tensor.copy_(values)
    else:
        ops.assign(tensor, values)


def state_of(sizes: Any, dtype: Any, lengths: Any) -> Any:
    """States of rows of these lengths, a Tensor [B, HEADER + 2]."""
    number = next(number for number, known in DTYPES.items() if known == dtype)
    rows = [[*sizes, number, 0, length, length] for length in lengths]
    return _state_tensor(np.array(rows, np.int64))


def _state_tensor(values: Any) -> Tensor:
    """States of rows where the device has its memory."""
    return remember(_to_be_written(Tensor(values)), values)


def _rings(
    capacity: int, window_size: int, compress_block_size: int, shared: Any
) -> tuple[Any, ...]:
    """Places of the window's and of the compression's ring; shared tokens need no first one."""
    sizes = (compress_block_size,) if shared else (window_size, compress_block_size)
    return tuple(min(capacity, size + ROLLBACK) for size in sizes)


class AttentionCache(tuple[Any, ...]):
    """Keys and values of the rows of a batch, made by the `new_cache` of a layer.

    A row has a length of its own; a call ``layer(x, cache=cache)`` writes its new tokens in place
    and raises the length. It is a tuple of Tensors, so that a graph takes it as an argument: rows
    grow, go back and begin anew without a new graph. `copy.deepcopy` gives another cache with the
    same tokens, `copy.copy` another name of this one.

    Supported Platforms:
        ``CPU`` ``Ascend``

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
        >>> beams = cache.select([0, 0, 1])
        >>> cache.reset(1)
        >>> print(cache.lengths, beams.lengths)
        [90  0] [ 90  90 100]
    """

    # Else a graph would take the Tensors for constants.
    __ms_mutable__ = True

    def _state(self) -> tuple[Any, ...]:
        """The states of the rows, and their lengths and most tokens as parts of that array."""
        state = self[STATE].asnumpy().copy()
        return state, state[:, HEADER], state[:, HEADER + 1]

    def _write_state(self, state: Any) -> None:
        """Give rows other states, in place."""
        _write(self[STATE], Tensor(state))
        remember(self[STATE], state)

    def _copied_state(self, rows: Any = slice(None)) -> Any:
        """The states of rows in a Tensor of their own."""
        return _state_tensor(self._state()[0][rows])

    @property
    def lengths(self) -> Tensor:
        """Tokens of every row now, a Tensor of int64, shape :math:`(B,)`."""
        return Tensor(self._state()[1].copy())

    @property
    def capacity(self) -> int:
        """Most tokens of a row, an int."""
        return self[SELECTED].shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of all Tensors, an int."""
        return sum(tensor.nbytes for tensor in self)

    def __copy__(self) -> "AttentionCache":
        """Share the Tensors in another tuple: a second name for one cache."""
        return type(self)(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "AttentionCache":
        """Another cache with the same tokens, which grows on its own."""
        # A Tensor's own deepcopy shares its memory until one of both gets another.
        return type(self)((self._copied_state(), *(tensor.copy() for tensor in self[SELECTED:])))

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle, too, is loaded in any process."""
        return type(self).from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, np.ndarray]:
        """The arrays of the cache by name, for files: numpy.savez, save_checkpoint, pickle.

        Returns:
            dict[str, numpy.ndarray], with names `state`, `selected` and, of a sparse layer,
            `others`. NumPy's files know no bfloat16, which is given as the uint16 of its bits.
        """
        arrays = dict(zip(PARTS, map(array_of, self)))
        return {**arrays, "state": without_process(arrays["state"], LAYER)}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> "AttentionCache":
        """A cache from what `to_dict` gave, in this or in another process.

        It serves the layer that it is of, also where the model was made again: one of the same
        sizes and, where both are known, of the same place among the layers of its model. That the
        parameters are those of the saved tokens is up to the caller.

        Args:
            parts (Mapping[str, Union[numpy.ndarray, Tensor]]): Arrays or Tensors by the names
                `state`, `selected` and `others`.

        Returns:
            AttentionCache, with memory of its own.

        Raises:
            TypeError: If `parts` are no such mapping, or one has another dtype.
            ValueError: If names, shapes or values are those of no cache.

        Examples:
            >>> from mindspore_nsa.nn import AttentionCache, DenseAttention, NSAConfig
            >>> config = NSAConfig(hidden_size=64, num_heads=4, num_kv_heads=2, head_dim=16)
            >>> cache = DenseAttention(config).new_cache(batch=2, capacity=128)
            >>> print(AttentionCache.from_dict(cache.to_dict()))
            AttentionCache(capacity=128, lengths=[0, 0], dtype=float32)
        """
        arrays = given_arrays(parts)
        state = without_process(_checked_state(arrays["state"]), LAYER)
        sizes, dtype = dict(zip(SIZES, state[0].tolist())), DTYPES[int(state[0, DTYPE])]
        found, width = [_state_tensor(state)], sizes["head_dim"] + sizes["value_head_dim"]
        sparse = sizes["window_size"] > 0
        if sparse != ("others" in arrays):
            raise ValueError(
                "AttentionCache.from_dict: parts must have the name others if the state is that of "
                f"a sparse layer, got {', '.join(arrays)} with the state of a "
                f"{'sparse' if sparse else 'dense'} one"
            )
        places, heads = -1, -1
        for name in tuple(arrays)[1:]:
            if name == "others":
                places = sum(_places(places, sizes))
            array = in_bits(name, arrays[name], dtype)
            shape = len(state), heads, places, width
            check_shape(name, array, shape, "(B, N2, places, D + Dv)")
            heads, places = array.shape[1:3]
            if name == "selected":
                check_rows(state, HEADER, places)
            found.append(_to_be_written(tensor_of(array, dtype)))
        return cls(found)

    def __repr__(self) -> str:
        """Describe the cache in one line: its values are too many to be looked at."""
        tensor = self[SELECTED]
        dtype = DTYPE_NAMES.get(tensor.dtype, tensor.dtype)
        lengths = self._state()[1].tolist()
        return f"AttentionCache(capacity={self.capacity}, lengths={lengths}, dtype={dtype})"

    @staticmethod
    def _ints(function: str, argument: str, given: Any) -> Any:
        """An int or several, as an array of rank 0 or 1."""
        try:
            values = np.asarray(given.asnumpy() if isinstance(given, Tensor) else given)
        except ValueError:  # lists of different lengths
            values = np.asarray(None)
        if values.ndim > 1 or values.size > 0 and values.dtype.kind not in "iu":
            expected = "must be ints: one, or a list, tuple or Tensor of them"
            raise TypeError(f"AttentionCache.{function}: {argument} {expected}, got {shown(given)}")
        return values.astype(np.int64)

    def truncate(self, lengths: int | IntList) -> None:
        """Make rows shorter: what came after is as if it had never been written.

        Args:
            lengths (Union[int, list[int], tuple[int], Tensor]): New length of every row, at most
                its present one.

        Raises:
            TypeError: If `lengths` are not ints.
            ValueError: If several are not as many as the rows, or if one is negative or longer than
                the row, or so much shorter that the rings of the window and of the open compression
                windows have lost what comes before it. A row whose rings were never full goes back
                to any length; others by 64 tokens, or to 0.
        """
        state, before, written = self._state()
        made = dict(zip(SIZES, state[0].tolist()))
        sizes = made["window_size"], made["compress_block_size"], made["shared_kv"]
        rings = _rings(self.capacity, *sizes) if made["window_size"] > 0 else ()
        after = self._ints("truncate", "lengths", lengths)
        if after.ndim == 1 and len(after) != len(before):
            raise ValueError(
                f"AttentionCache.truncate: lengths must be one for all or {len(before)}, one for "
                f"every row, got {len(after)}"
            )
        after = np.broadcast_to(after, before.shape)
        for row, (new, old) in enumerate(zip(after.tolist(), before.tolist(), strict=True)):
            if not 0 <= new <= old:
                raise ValueError(
                    f"AttentionCache.truncate: lengths must be in [0, {old}] for row {row}, "
                    f"got {new}"
                )
            if new == 0:
                written[row] = 0
            lost = written[row] - ROLLBACK
            if rings and written[row] > min(rings) and new < lost:
                raise ValueError(
                    f"AttentionCache.truncate: lengths must be 0 or at least {lost} for row {row}, "
                    f"which had {written[row]} tokens: its rings hold no older ones, got {new}"
                )
        before[:] = after
        # In place, where a graph that holds the Tensor itself sees it, too.
        self._write_state(state)

    def _rows(self, function: str, argument: str, given: Any) -> Any:
        """Numbers of rows that exist, as a list."""
        rows, count = self._ints(function, argument, given), self[SELECTED].shape[0]
        for row in np.atleast_1d(rows).tolist():
            if not 0 <= row < count:
                raise ValueError(
                    f"AttentionCache.{function}: {argument} must be in [0, {count}), got {row}"
                )
        return np.atleast_1d(rows).tolist()

    def select(self, rows: int | IntList) -> "AttentionCache":
        """Another cache whose rows are rows of this one, as beam search and several samples need.

        Its rows hold what the rows held that they were copied from, to the bit, and grow on their
        own.

        Args:
            rows (Union[int, list[int], tuple[int], Tensor]): Numbers of rows, in any order; a row
                may come several times.

        Returns:
            AttentionCache, with a row for each of `rows`.

        Raises:
            TypeError: If `rows` are not ints.
            ValueError: If a row does not exist, or if `rows` are empty.
        """
        chosen = self._rows("select", "rows", rows)
        if not chosen:
            raise ValueError("AttentionCache.select: rows must name at least one row, got none")
        others = (_rows_of(tensor, chosen) for tensor in self[SELECTED:])
        return type(self)((self._copied_state(chosen), *others))

    def copy_row(self, to: int | IntList, source: int) -> None:
        """Give rows what another row holds, in place, where graphs see it, too.

        Args:
            to (Union[int, list[int], tuple[int], Tensor]): Numbers of the rows that are written.
            source (int): Number of the row that is copied.

        Raises:
            TypeError: If the numbers are not ints.
            ValueError: If a row does not exist, or if a Tensor of the cache is a view, of which
                MindSpore would pass a copy.
        """
        if not _is_int(source):
            raise TypeError(f"AttentionCache.copy_row: source must be an int, got {shown(source)}")
        pairs = [[row, int(source)] for row in self._rows("copy_row", "to", to)]
        self._rows("copy_row", "source", source)
        if not pairs:
            return
        for tensor in self:
            if is_view(tensor):
                raise ValueError(
                    "AttentionCache.copy_row: the Tensors of the cache must be no views of others, "
                    f"got one of shape {tensor.shape}"
                )
        if not on_ascend():
            for tensor in self:
                copy_rows(tensor, Tensor(np.array(pairs, np.int64)))
            return
        state = self._state()[0]
        for row, other in pairs:
            state[row] = state[other]
            for tensor in self[SELECTED:]:
                tensor[row].copy_(tensor[other])
        self._write_state(state)

    def grow(self, capacity: int) -> "AttentionCache":
        """Another cache with the same rows and room for more tokens.

        Args:
            capacity (int): Most tokens of a row, at least those of this cache.

        Returns:
            AttentionCache, which grows on its own.

        Raises:
            TypeError: If `capacity` is not an int.
            ValueError: If it is smaller than that of this cache.
        """
        if not _is_int(capacity):
            raise TypeError(f"AttentionCache.grow: capacity must be an int, got {shown(capacity)}")
        if capacity < self.capacity:
            raise ValueError(
                f"AttentionCache.grow: capacity must be at least that of this cache "
                f"({self.capacity}), got {capacity}"
            )
        sizes = dict(zip(SIZES, self._state()[0][0].tolist()))
        dims = sizes["head_dim"], sizes["value_head_dim"]
        batch, heads = self[SELECTED].shape[:2]
        parts = [[(self.capacity, capacity)]]
        if len(self) == SPARSE_TENSORS:
            parts.append(list(zip(_places(self.capacity, sizes), _places(capacity, sizes))))
        places = sum(then for part in parts for _, then in part)
        elements = batch * heads * sum(dims) * places
        _check_memory("AttentionCache.grow", capacity, elements, self[SELECTED].dtype)
        grown = (_widened(*pair, dims) for pair in zip(self[SELECTED:], parts))
        return type(self)((self._copied_state(), *grown))

    def reset(self, rows: int | IntList | None = None) -> None:
        """Empty rows, for other sequences to begin in them.

        Args:
            rows (Union[int, list[int], tuple[int], Tensor], optional): Numbers of the rows.
                Default: ``None``, all.

        Raises:
            TypeError: If `rows` are not ints.
            ValueError: If a row does not exist.
        """
        lengths = self._state()[1]
        if rows is None:
            lengths[:] = 0
        else:
            lengths[self._rows("reset", "rows", rows)] = 0
        self.truncate(lengths)


def _checked_state(state: Any) -> Any:
    """The states of rows from a file, or the error of what are none."""
    check_state(state, HEADER + 2, LAYER)
    sizes = dict(zip(SIZES, state[0].tolist()))
    sparse = SIZES[DENSE_SIZES:-1]
    lowest = dict.fromkeys(("head_dim", "value_head_dim"), 1)
    lowest.update((name, int(any(sizes[other] for other in sparse))) for name in sparse)
    wrong = [name for name, least in lowest.items() if not least <= sizes[name] <= _MOST]
    if wrong or int(state[0, DTYPE]) not in DTYPES:
        raise ValueError(
            "AttentionCache.from_dict: parts['state'] must be that of a cache, got "
            f"{f'{wrong[0]} {sizes[wrong[0]]}' if wrong else f'dtype {state[0, DTYPE]}'}"
        )
    return state


def _size(function: str, name: str, value: Any) -> int:
    if not _is_int(value):
        raise TypeError(f"{function}: {name} must be an int, got {shown(value)}")
    if value < 1:
        raise ValueError(f"{function}: {name} must be at least 1, got {value}")
    return int(value)


def _rows_of(tensor: Tensor, rows: Any) -> Any:
    """Rows of a Tensor in a new one; gather takes no bfloat16 on a CPU."""
    parts = [tensor[row : row + 1] for row in rows]
    return ops.concat(parts, 0) if len(parts) > 1 else parts[0].copy()


def _places(capacity: int, sizes: Any) -> tuple[Any, ...]:
    """Places of the parts of a sparse layer's last Tensor: compressed tokens, rings."""
    l, s = sizes["compress_block_size"], sizes["compress_stride"]  # noqa: E741
    rings = _rings(capacity, sizes["window_size"], l, sizes["shared_kv"])
    return max(1, (capacity - l) // s + 1), *rings


def _widened(tensor: Tensor, parts: Any, dims: Any) -> Any:
    """The caches [B, N2, places, D + Dv] of a Tensor with more places.

    Args:
        tensor (Tensor): Several caches, place after place.
        parts (list): Places of each now and then.
        dims (tuple[Any, ...]): D and Dv.
    """
    batch, heads = tensor.shape[:2]
    flat, begin, pieces = tensor.reshape((batch, heads, -1)), 0, []
    for now, then in parts:
        # A head stores all keys, then all values. A token keeps its place, also in a ring:
        # one that becomes larger was as large as the capacity and has never come around.
        for dim in dims:
            pieces.append(flat[..., begin : begin + now * dim])
            begin += now * dim
            if then > now:
                pieces.append(ops.zeros((batch, heads, (then - now) * dim), tensor.dtype))
    places = sum(then for _, then in parts)
    # A reshape gives a view, and MindSpore passes a copy of a view where it is to be written.
    return ops.concat(pieces, -1).reshape((batch, heads, places, sum(dims))).copy()


# Bytes of a value by dtype; NumPy's dtype of zeros that become these without more memory.
_BYTES = {mindspore.float16: 2, mindspore.bfloat16: 2, mindspore.float32: 4}
_ZEROS = {2: np.float16, 4: np.float32}


def _check_memory(function: str, capacity: int, elements: Any, dtype: Any) -> None:
    """An error of a capacity that this machine cannot hold, before it tries to."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    taken = elements * _BYTES[dtype]
    if taken > memory:
        raise ValueError(
            f"{function}: capacity must be one that the {memory} bytes of memory of this machine "
            f"have room for, got {capacity}, with which the cache takes {taken} bytes"
        )


def make_cache(
    layer: Any, config: NSAConfig, sparse: bool, batch: int, capacity: int, dtype: Any
) -> AttentionCache:
    """An empty cache for the sizes of a configuration."""
    function = f"{layer}.new_cache"
    batch, capacity = _size(function, "batch", batch), _size(function, "capacity", capacity)
    dtype = _NAMED.get(dtype, dtype) if isinstance(dtype, str) else dtype
    if dtype not in FLOATS:
        raise TypeError(
            f"{function}: dtype must be float16, bfloat16 or float32, got {shown(dtype)}"
        )
    places = [capacity]
    if sparse:
        places.append(sum(_places(capacity, vars(config))))
    width = config.head_dim + config.value_head_dim
    elements = batch * config.num_kv_heads * width * sum(places)
    _check_memory(function, capacity, elements + 2 * batch * (HEADER + 2), dtype)

    def storage(count: int) -> Any:
        shape = (batch, config.num_kv_heads, count, width)
        return _to_be_written(Tensor(np.zeros(shape, _ZEROS[_BYTES[dtype]])).astype(dtype))

    state = state_of(sizes_of(config, sparse), dtype, [0] * batch)
    return AttentionCache((state, *map(storage, places)))
