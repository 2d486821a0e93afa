"""The arrays of a cache, by name, for files: what they must be, and as Tensors again."""

from collections.abc import Mapping
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor

from ..ops._plan import DTYPE_NAMES, fail_type
from .layer_number import LayerParts

ARRAYS = ("state", "selected", "others")
_FUNCTION = "AttentionCache.from_dict"


def _numpy_dtype(dtype: Any) -> Any:
    """How NumPy holds a MindSpore dtype; files know no bfloat16, of which they keep the bits."""
    if dtype == mindspore.bfloat16:
        return np.dtype(np.uint16)
    return np.dtype(DTYPE_NAMES[dtype])


def array_of(tensor: Tensor) -> Any:
    """A Tensor of a cache as an array of its own, bfloat16 as uint16."""
    return np.array(tensor.asnumpy()).view(_numpy_dtype(tensor.dtype))


def tensor_of(array: np.ndarray, dtype: Any) -> Tensor:
    """The way back."""
    array = np.ascontiguousarray(array)
    if dtype == mindspore.bfloat16:
        array = array.view(Tensor([0], dtype).asnumpy().dtype)
    return Tensor(array)


def without_process(state: Any, layer: Any) -> Any:
    """States that are of any process; `layer` is the column of the layers' numbers."""
    state = state.copy()
    state[:, layer] = [LayerParts.of(n).loaded().packed() for n in state[:, layer].tolist()]
    return state


def _fail(part: str, expected: str, got: Any) -> None:
    raise ValueError(f"{_FUNCTION}: parts[{part!r}] must be {expected}, got {got}")


def given_arrays(parts: Any) -> Any:
    """The arrays of `parts` by name; their names and types are checked."""
    if not isinstance(parts, Mapping):
        fail_type(_FUNCTION, "parts", "a dict, as to_dict gives it", parts)
    names = set(parts)
    if not set(ARRAYS[:2]) <= names <= set(ARRAYS):
        raise ValueError(
            f"{_FUNCTION}: parts must have the names {', '.join(ARRAYS[:2])} and, of a sparse "
            f"layer, {ARRAYS[2]}, got {', '.join(sorted(map(str, names))) or 'none'}"
        )
    found = {}
    for name in ARRAYS:
        if name not in names:
            continue
        part = parts[name]
        if isinstance(part, Tensor):
            part = array_of(part) if part.dtype in DTYPE_NAMES else part.asnumpy()
        if not isinstance(part, np.ndarray):
            fail_type(_FUNCTION, f"parts[{name!r}]", "an array or a Tensor", part)
        # A file may be of a machine with another order of bytes.
        found[name] = part.astype(part.dtype.newbyteorder("="), copy=False)
    return found


def check_state(state: Any, columns: Any, same: Any) -> None:
    """The rules of a state [B, columns], whose first `same` columns are those of all rows."""
    if state.dtype != np.int64:
        raise TypeError(
            f"{_FUNCTION}: parts['state'] must be of dtype int64, got {state.dtype.name}"
        )
    if state.ndim != 2 or state.shape[0] < 1 or state.shape[1] != columns:
        _fail("state", f"of shape (B, {columns})", state.shape)
    other = np.flatnonzero((state[:, :same] != state[:1, :same]).any(1))
    if other.size:
        _fail("state", "of rows of one cache", f"row {other[0]} of other sizes than row 0")


def check_rows(state: Any, length: int, capacity: int) -> None:
    """The rules of the lengths, in the columns `length` and after it."""
    wrong = (state[:, length] < 0) | (state[:, length] > capacity)
    wrong |= state[:, length + 1] < state[:, length]
    for row in np.flatnonzero(wrong)[:1]:
        expected = f"of lengths in [0, {capacity}] and of at least as many tokens ever had"
        _fail("state", expected, f"{state[row, length:].tolist()} in row {row}")


def in_bits(name: str, array: np.ndarray, dtype: Any) -> Any:
    """An array in the dtype in which NumPy holds a cache's, or the error of another."""
    wanted = _numpy_dtype(dtype)
    # NumPy's files hand bfloat16 back as two bytes of no type.
    bits = dtype == mindspore.bfloat16 and array.dtype.itemsize == 2 and array.dtype.kind in "Vu"
    if array.dtype != wanted and not bits:
        held = f" (as {wanted.name})" if dtype == mindspore.bfloat16 else ""
        raise TypeError(
            f"{_FUNCTION}: parts[{name!r}] must be of the dtype that the state says, "
            f"{DTYPE_NAMES[dtype]}{held}, got {array.dtype}"
        )
    return np.ascontiguousarray(array).view(wanted)


def check_shape(name: str, array: np.ndarray, expected: tuple[int, ...], text: str) -> None:
    """The rule of a shape; -1: any size from 1 on."""
    fits = array.ndim == len(expected) and all(
        size == wanted or wanted == -1 and size >= 1 for size, wanted in zip(array.shape, expected)
    )
    if not fits:
        shown = tuple("any" if size == -1 else size for size in expected)
        _fail(name, f"of shape {text} = ({', '.join(map(str, shown))})", array.shape)
