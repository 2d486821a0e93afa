"""The memory of a cache's Tensors: where a device writes, and how it is copied and made larger."""

import os
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops

from ..ops._by_device import on_ascend

# Bytes of a value by dtype; NumPy's dtype of zeros that become these without more memory.
_BYTES = {mindspore.float16: 2, mindspore.bfloat16: 2, mindspore.float32: 4}
_ZEROS = {2: np.float16, 4: np.float32}


def to_be_written(tensor: Tensor) -> Any:
    """A new Tensor where the device has its memory: of one on the host it would write a copy."""
    return tensor.move_to("Ascend") if on_ascend() else tensor


def write(tensor: Tensor, values: Any) -> None:
    """Write values into the memory of a Tensor."""
    if on_ascend():
        tensor.copy_(values)
    else:
        ops.assign(tensor, values)


def copied_rows(tensor: Tensor, rows: Any) -> Any:
    """Rows of a Tensor in a new one; gather takes no bfloat16 on a CPU."""
    parts = [tensor[row : row + 1] for row in rows]
    return ops.concat(parts, 0) if len(parts) > 1 else parts[0].copy()


def widened(tensor: Tensor, parts: Any, dims: Any) -> Any:
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


def check_memory(function: str, capacity: int, elements: Any, dtype: Any) -> None:
    """An error of a capacity that this machine cannot hold, before it tries to."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    taken = elements * _BYTES[dtype]
    if taken > memory:
        raise ValueError(
            f"{function}: capacity must be one that the {memory} bytes of memory of this machine "
            f"have room for, got {capacity}, with which the cache takes {taken} bytes"
        )


def zeros(shape: tuple[int, ...], dtype: Any) -> Tensor:
    """A new Tensor of zeros that a device can write."""
    return to_be_written(Tensor(np.zeros(shape, _ZEROS[_BYTES[dtype]])).astype(dtype))
