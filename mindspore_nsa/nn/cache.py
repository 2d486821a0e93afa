"""The cache of an attention layer: what its earlier tokens leave for the later ones."""

from collections.abc import Iterator, Mapping
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor

from ..ops._by_device import on_ascend
from ..ops._in_place import copy_rows, is_view
from ..ops._plan import DTYPE_NAMES, FLOATS, shown
from ..ops._types import IntList
from .cache_arrays import (
    ARRAYS,
    array_of,
    check_rows,
    check_shape,
    given_arrays,
    in_bits,
    tensor_of,
    without_process,
)
from .cache_known import remember, taken, tensors_of
from .cache_memory import check_memory, copied_rows, to_be_written, widened, write, zeros
from .cache_state import (
    DTYPE,
    DTYPES,
    HEADER,
    LAYER,
    OTHERS,
    ROLLBACK,
    SELECTED,
    SIZES,
    SPARSE_TENSORS,
    STATE,
    branch_places,
    checked_state,
    ring_places,
    sizes_of,
    state_of,
    state_tensor,
)
from .config import NSAConfig
from .packing import is_int

# NSAConfig uses these names.
_NAMED = {name: getattr(mindspore, name) for name in ("float16", "bfloat16", "float32")}


class AttentionCache(tuple[Any, ...]):
    """Keys and values of the rows of a batch, made by the `new_cache` of a layer.

    A row of a batch has a length of its own; a call ``layer(x, cache=cache)`` writes its new tokens
    in place and raises the length. It is a tuple of Tensors, so that a graph takes it as an
    argument: rows grow, go back and begin anew without a new graph. `copy.deepcopy` gives another
    cache with the same tokens, `copy.copy` another name of this one.

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

    @property
    def __ms_mutable__(self) -> bool:
        """True: a graph asks before each call, and takes other tuples' Tensors for constants."""
        self._take()
        return True

    def _take(self) -> None:
        """Take notice of somebody else who gets the Tensor of the state."""
        if on_ascend() and len(self) > STATE:
            taken(tensors_of(self)[STATE])

    def __getitem__(self, place: Any) -> Any:
        if place not in (SELECTED, OTHERS):
            self._take()
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[Any]:
        self._take()
        return super().__iter__()

    def __add__(self, other: Any) -> Any:
        self._take()
        return super().__add__(other)

    def __radd__(self, other: Any) -> Any:
        self._take()
        return other + tensors_of(self)

    def __mul__(self, count: Any) -> Any:
        self._take()
        return super().__mul__(count)

    __rmul__ = __mul__

    def _state(self) -> tuple[Any, ...]:
        """The states of the rows, and their lengths and most tokens as parts of that array."""
        state = tensors_of(self)[STATE].asnumpy().copy()
        return state, state[:, HEADER], state[:, HEADER + 1]

    def _write_state(self, state: Any) -> None:
        """Give rows other states, in place."""
        write(tensors_of(self)[STATE], Tensor(state))
        remember(tensors_of(self)[STATE], state)

    def _copied_state(self, rows: Any = slice(None)) -> Any:
        """The states of rows in a Tensor of their own."""
        return state_tensor(self._state()[0][rows])

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
        return sum(tensor.nbytes for tensor in tensors_of(self))

    def __copy__(self) -> "AttentionCache":
        """Share the Tensors in another tuple: a second name for one cache."""
        return type(self)(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "AttentionCache":
        """Another cache with the same tokens, which grows on its own."""
        # A Tensor's own deepcopy shares its memory until one of both gets another.
        return type(self)(
            (self._copied_state(), *(tensor.copy() for tensor in tensors_of(self)[SELECTED:]))
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle, too, is loaded in any process."""
        return type(self).from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, np.ndarray]:
        """The arrays of the cache by name, for files: numpy.savez, save_checkpoint, pickle.

        Returns:
            dict[str, numpy.ndarray], with names `state`, `selected` and, of a sparse layer,
            `others`. NumPy's files know no bfloat16, which is given as the uint16 of its bits.
        """
        arrays = dict(zip(ARRAYS, map(array_of, tensors_of(self))))
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
        state = without_process(checked_state(arrays["state"]), LAYER)
        sizes, dtype = dict(zip(SIZES, state[0].tolist())), DTYPES[int(state[0, DTYPE])]
        found, width = [state_tensor(state)], sizes["head_dim"] + sizes["value_head_dim"]
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
                places = sum(branch_places(places, sizes))
            array = in_bits(name, arrays[name], dtype)
            shape = len(state), heads, places, width
            check_shape(name, array, shape, "(B, N2, places, D + Dv)")
            heads, places = array.shape[1:3]
            if name == "selected":
                check_rows(state, HEADER, places)
            found.append(to_be_written(tensor_of(array, dtype)))
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
        rings = ring_places(self.capacity, *sizes) if made["window_size"] > 0 else ()
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
        others = (copied_rows(tensor, chosen) for tensor in tensors_of(self)[SELECTED:])
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
        if not is_int(source):
            raise TypeError(f"AttentionCache.copy_row: source must be an int, got {shown(source)}")
        pairs = [[row, int(source)] for row in self._rows("copy_row", "to", to)]
        self._rows("copy_row", "source", source)
        if not pairs:
            return
        for tensor in tensors_of(self):
            if is_view(tensor):
                raise ValueError(
                    "AttentionCache.copy_row: the Tensors of the cache must be no views of others, "
                    f"got one of shape {tensor.shape}"
                )
        if not on_ascend():
            for tensor in tensors_of(self):
                copy_rows(tensor, Tensor(np.array(pairs, np.int64)))
            return
        state = self._state()[0]
        for row, other in pairs:
            state[row] = state[other]
            for tensor in tensors_of(self)[SELECTED:]:
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
        if not is_int(capacity):
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
            parts.append(
                list(zip(branch_places(self.capacity, sizes), branch_places(capacity, sizes)))
            )
        places = sum(then for part in parts for _, then in part)
        elements = batch * heads * sum(dims) * places
        check_memory("AttentionCache.grow", capacity, elements, self[SELECTED].dtype)
        grown = (widened(*pair, dims) for pair in zip(tensors_of(self)[SELECTED:], parts))
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


def _size(function: str, name: str, value: Any) -> int:
    if not is_int(value):
        raise TypeError(f"{function}: {name} must be an int, got {shown(value)}")
    if value < 1:
        raise ValueError(f"{function}: {name} must be at least 1, got {value}")
    return int(value)


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
        places.append(sum(branch_places(capacity, vars(config))))
    width = config.head_dim + config.value_head_dim
    elements = batch * config.num_kv_heads * width * sum(places)
    check_memory(function, capacity, elements + 2 * batch * (HEADER + 2), dtype)
    shapes = [(batch, config.num_kv_heads, count, width) for count in places]
    state = state_of(sizes_of(config, sparse), dtype, [0] * batch)
    return AttentionCache((state, *(zeros(shape, dtype) for shape in shapes)))
