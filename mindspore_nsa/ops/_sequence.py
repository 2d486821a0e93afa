"""Sequence lists of compressed segments."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from .. import _native
from ._by_device import take_rows
from ._custom import ZERO
from ._plan import Planner, TensorSpec, fail_type
from ._types import IntList

_FUNCTION = "compressed_seq_len"


def _plan_call(actual_seq_len: Any, compress_block_size: Any, compress_stride: Any) -> Any:
    if not isinstance(actual_seq_len, (TensorSpec, tuple, list)):
        fail_type(
            _FUNCTION, "actual_seq_len", "a tuple or list of ints or a Tensor", actual_seq_len
        )
    if not isinstance(actual_seq_len, TensorSpec):
        return _native.compressed_seq_len(actual_seq_len, compress_block_size, compress_stride)
    if actual_seq_len.native()[0] not in ("int64", "int32"):
        raise TypeError(
            f"{_FUNCTION}: actual_seq_len must be of dtype int64 or int32, "
            f"got {actual_seq_len.native()[0]}"
        )
    if actual_seq_len.shape is not None and len(actual_seq_len.shape) != 1:
        raise ValueError(
            f"{_FUNCTION}: actual_seq_len must be of rank 1, got shape {actual_seq_len.shape}"
        )
    # Checks the window, and the values where they are known.
    values = actual_seq_len.content
    _native.compressed_seq_len(
        (0,) if values is None else values, compress_block_size, compress_stride
    )
    return None


def compressed_seq_len(
    actual_seq_len: IntList, compress_block_size: int, compress_stride: int
) -> tuple[int, ...] | Tensor:
    """Prefix sums of the rows that `nsa_compress` makes of each segment.

    Args:
        actual_seq_len (Union[tuple[int], list[int], Tensor]): Inclusive prefix sums of the segment
            lengths. A Tensor has shape :math:`(B,)` and dtype int64 or int32.
        compress_block_size (int): Tokens of a window, at least `compress_stride`.
        compress_stride (int): Tokens between the starts of neighbouring windows, at least 1.

    Returns:
        tuple[int] for a tuple or list; for a Tensor, a Tensor of the same shape and dtype.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank or value is wrong.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import mindspore_nsa
        >>> print(mindspore_nsa.compressed_seq_len((80, 176, 256), 64, 16))
        (2, 5, 7)
    """
    sums = _plan_compressed_seq_len(actual_seq_len, compress_block_size, compress_stride)
    if sums is not None:
        return sums
    ends: Any = actual_seq_len
    dtype = ends.dtype
    # A window may be longer than an int32 counts.
    ends = ops.cast(ends, mindspore.int64)
    begins = take_rows(ops.concat((ZERO, ends)), ops.arange(ops.shape(ends)[0]))
    lengths = ends - begins
    windows = ops.floor_divide(lengths - compress_block_size, compress_stride) + 1
    windows = ops.maximum(windows, ops.zeros_like(windows))
    # There are no more of them than tokens. MindSpore's sums on Ascend take no int64.
    return ops.cast(ops.cumsum(ops.cast(windows, mindspore.int32), 0), dtype)


_plan_compressed_seq_len = Planner(_plan_call, compressed_seq_len, lists=("actual_seq_len",))
