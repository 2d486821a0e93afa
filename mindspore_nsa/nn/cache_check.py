"""Whether a cache fits a layer and has room, told before anything is written to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor
from mindspore.common.dtype import TensorType

from ..ops._by_device import on_ascend
from ..ops._custom import planned_target
from ..ops._in_place import writes_of
from ..ops._plan import DTYPE_NAMES, Planner, TensorSpec, fail_type, is_constant
from .cache_known import forget, graph_compiled, known, own_call, remember, tensors_of
from .cache_state import (
    DENSE_TENSORS,
    DTYPE,
    DTYPES,
    HEADER,
    LAYER,
    OTHERS,
    SELECTED,
    SIZES,
    SPARSE_TENSORS,
    STATE,
    size_text,
)
from .layer_number import wrong_layer


def _wrong_kind(name: str, tensors: Any = None) -> ValueError:
    kinds = {SPARSE_TENSORS: "a NativeSparseAttention", DENSE_TENSORS: "a DenseAttention"}
    got = f", got that of {kinds[tensors]}" if tensors in kinds else ""
    return ValueError(f"{name}: cache must be one that this kind of layer made{got}")


class _Tensors(tuple[Any, ...]):
    """Specs of the Tensors of a cache."""

    __slots__ = ()


# The content of a Tensor that a graph holds itself.
_CONSTANT = "a constant"


class _CachePlanner(Planner):
    """A planner that sees each Tensor of a cache, and of the state the values."""

    def __call__(self, *args: Any) -> Any:
        name, x, cache, *others = args
        if isinstance(cache, (tuple, list)):
            tensors = tensors_of(cache)
            if all(isinstance(t, Tensor) for t in tensors):
                cache = _Tensors(
                    TensorSpec((t.dtype, t.shape, self._state(t) if i == STATE else None))
                    for i, t in enumerate(tensors)
                )
        return super().__call__(name, x, cache, *others)

    @staticmethod
    def _state(tensor: Any) -> tuple[Any, ...] | None:
        if tensor.dtype != mindspore.int64 or len(tensor.shape) != 2:
            return None
        if tensor.shape[1] != HEADER + 2:
            return None
        if not on_ascend():
            # A fraction of the time of asnumpy.
            return tuple(map(tuple, tensor.tolist()))
        values = known(tensor)
        if values is None:
            values = tensor.asnumpy()
            remember(tensor, values)
        return tuple(map(tuple, values.tolist()))

    def __infer__(self, *args: Any) -> dict[Any, Any]:
        graph_compiled()
        return super().__infer__(*args)

    def _abstract(self, i: Any, arg: Any) -> Any:
        dtypes, shapes, values = arg["dtype"], arg["shape"], arg["value"]
        if self.names[i] != "cache" or not isinstance(dtypes, (tuple, list)):
            return super()._abstract(i, arg)
        if not all(isinstance(dtype, TensorType) for dtype in dtypes):
            return super()._abstract(i, arg)
        if not isinstance(values, (tuple, list)):
            values = (None,) * len(dtypes)
        tensors = []
        for dtype, shape, value in zip(dtypes, shapes, values, strict=True):
            spec = super()._abstract(i, {"dtype": dtype, "shape": shape, "value": value})
            constant = is_constant(value)
            tensors.append(TensorSpec((*spec[:2], _CONSTANT if constant else None)))
        return _Tensors(tensors)


def _check_sizes(name: str, state: Any, sizes: Any, dtype: Any) -> None:
    others = [
        (size_text(size, ours), size_text(size, its))
        for size, ours, its in zip(SIZES, sizes, state)
        if ours != its
    ]
    if others:
        ours, its = (", ".join(texts) for texts in zip(*others))
        raise ValueError(f"{name}: cache must be one made for {ours}, got one for {its}")
    made_with = DTYPES.get(state[DTYPE])
    if dtype != made_with:
        made, got = (DTYPE_NAMES.get(known, known) for known in (made_with, dtype))
        raise TypeError(
            f"{name}: cache must be of the dtype that it was made with, {made}, got {got}: a cast "
            f"copy, as mixed precision makes it; new_cache(..., dtype={got}) makes a cache that is "
            f"not cast"
        )


def _check_room(name: str, lengths: Any, ends: Any, capacity: Any) -> None:
    before = 0
    for row, (length, end) in enumerate(zip(lengths, ends)):
        if length + end - before > capacity:
            raise ValueError(
                f"{name}: cache must have a capacity for {length + end - before} tokens of row "
                f"{row} (length {length}), got capacity {capacity}"
            )
        before = end


def _check_layer(name: str, state: Any, layer: Any) -> None:
    for row, (*_, writer, length, _) in enumerate(state):
        wrong = wrong_layer(layer, writer, row) if length > 0 else None
        if wrong is not None:
            raise ValueError(f"{name}: cache must be {wrong[0]}, got {wrong[1]}")


def _check_rows(name: str, x: Any, cache: Any, ends: Any) -> None:
    """A row of all Tensors for every row of x or document."""
    state, *others = (tensor.shape for tensor in cache)
    if state is not None and (len(state) != 2 or state[1] not in (-1, HEADER + 2)):
        raise _wrong_kind(name)
    rows = [shape[0] for shape in (state, *others) if shape is not None]
    known = sorted({count for count in rows if count != -1})
    if len(known) > 1:
        raise ValueError(
            f"{name}: cache must be of Tensors of the same rows, as cache.select(rows) makes them, "
            f"got Tensors of {' and '.join(map(str, known))} rows"
        )
    of_x = x.shape is not None and len(x.shape) == 3
    if of_x:
        wanted, what = x.shape[0], "rows of x"
    elif isinstance(ends, TensorSpec):
        wanted, what = ends.shape[0] if ends.shape else -1, "documents of actual_seq_len"
    else:
        wanted, what = len(ends), "documents of actual_seq_len"
    if known and wanted not in (-1, *known):
        raise ValueError(
            f"{name}: cache must have a row for each of the {wanted} {what}, got {known[0]}"
        )


def _check_shape(name: str, shape: Any, sizes: Any, key_heads: Any) -> None:
    """Check the shape of a row's keys and values, [N2, capacity, D + Dv]."""
    width, its_heads, its_width = sizes[0] + sizes[1], shape[1], shape[3]
    if its_heads not in (-1, key_heads):
        raise ValueError(
            f"{name}: cache must be one made for num_kv_heads {key_heads}, got one for {its_heads}"
        )
    if its_width not in (-1, width):
        raise ValueError(
            f"{name}: cache must be one made for head_dim + value_head_dim {width}, got one for "
            f"{its_width}"
        )


def _plan_cache(
    name: str, x: Any, cache: Any, ends: Any, sizes: Any, key_heads: Any, sparse: Any, layer: Any
) -> tuple[Any, ...]:
    if not isinstance(cache, _Tensors):
        fail_type(name, "cache", "an AttentionCache or a tuple of its Tensors", cache)
    if any(tensor.content == _CONSTANT for tensor in cache):
        raise ValueError(
            f"{name}: cache must be an argument of the graph, several of them a tuple under "
            f"mindspore.mutable, got constants, to which a graph writes in vain"
        )
    if len(cache) != (SPARSE_TENSORS if sparse else DENSE_TENSORS):
        raise _wrong_kind(name, len(cache))
    selected, state = cache[SELECTED], cache[STATE].content
    if selected.shape is not None and len(selected.shape) != 4:
        raise _wrong_kind(name)
    _check_rows(name, x, cache, ends)
    if planned_target.get() != "cpu" and selected.dtype == mindspore.float32:
        raise TypeError(
            f"{name}: cache must be of dtype float16 or bfloat16 on Ascend, got float32; "
            f"new_cache(..., dtype=float16) makes one"
        )
    if state is not None:
        for made_with in {row[:LAYER] for row in state}:
            _check_sizes(name, made_with, sizes, selected.dtype)
    if selected.shape is not None:
        _check_shape(name, selected.shape, sizes, key_heads)
    if state is not None:
        _check_layer(name, state, layer)
        ends = getattr(ends, "content", ends)
        if ends is not None and len(state) == len(ends):
            _check_room(name, [row[HEADER] for row in state], ends, selected.shape[2])
    return STATE, SELECTED, OTHERS


def check_cache(
    name: str, x: Any, cache: Any, ends: Any, sizes: Any, key_heads: Any, sparse: Any, layer: Any
) -> Any:
    """STATE, SELECTED and OTHERS, or the error of a cache that does not fit or is full.

    That comes before anything is written. What the state says, the operator checks where it is not
    known yet. A graph takes Tensors out of a cache by the result, because it would do that before
    the check otherwise, in words of its own.
    """
    return _plan_check_cache(name, x, cache, ends, sizes, key_heads, sparse, layer)


_plan_check_cache = _CachePlanner(_plan_cache, check_cache, lists=("ends",))


@contextmanager
def states_of_call(cache: Any, ends: Any, layer: int) -> Iterator[None]:
    """A call of a layer, after which the host knows the states of the rows as it did before.

    Args:
        cache: What is passed as the layer's cache.
        ends: Prefix sums of the rows' new tokens, or None where the host does not know them.
        layer: Number of the layer.
    """
    tensors = tensors_of(cache) if isinstance(cache, (tuple, list)) else ()
    state = tensors[STATE] if tensors else None
    if not isinstance(state, Tensor):
        # The call refuses it.
        yield
        return
    before = writes_of(state)
    try:
        with own_call():
            yield
        # The call has made them known where they were not. A graph's write is not counted.
        values = None if ends is None else known(state, min(writes_of(state) - before, 1))
    except BaseException:
        # Nobody knows what has been written by then.
        forget(state)
        raise
    if values is None:
        forget(state)
    else:
        remember(state, _after(values, ends, layer))


def _after(states: Any, ends: Any, layer: int) -> Any:
    """The states of rows after a step, as the kernel makes them."""
    after, counts = states.copy(), np.diff(ends, prepend=0)
    after[counts > 0, LAYER] = layer
    after[:, HEADER] += counts
    longest = np.maximum(after[:, HEADER], after[:, HEADER + 1])
    after[:, HEADER + 1] = np.where(after[:, HEADER] == 0, 0, longest)
    return after
