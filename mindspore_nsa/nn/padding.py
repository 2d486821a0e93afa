"""Padding in a batch: tokens before and after those of a row are documents of their own."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ..ops._by_device import zeros_like
from ..ops._plan import Planner, TensorSpec, fail_type, shown

_HOLE = "a hole"
PADDING_RULE = "key_padding_mask must be True only before and after the tokens of a row"


class _PaddingPlanner(Planner):
    """A planner that sees which row of a mask has padding between its tokens."""

    def _content(self, i: int, tensor: Tensor) -> Any:
        if tensor.dtype != mindspore.bool_ or len(tensor.shape) != 2:
            return None
        real = ~tensor.asnumpy()
        begins = real[:, 1:] & ~real[:, :-1]
        runs = begins.sum(1) + real[:, 0] if real.shape[1] else begins.sum(1)
        return next(((_HOLE, int(row)) for row in (runs > 1).nonzero()[0]), None)


def _plan_padding(name: str, x: Any, cache: Any, key_padding_mask: Any) -> bool:
    mask = key_padding_mask
    if not isinstance(mask, TensorSpec):
        fail_type(name, "key_padding_mask", "a Tensor or None", mask)
    if mask.dtype != mindspore.bool_:
        dtype = mask.native()[0]
        raise TypeError(
            f"{name}: key_padding_mask must be of dtype bool, True where a token is padding, got "
            f"{dtype}; of a mask of ones where tokens count it is mask == 0"
        )
    if len(x.shape) != 3:
        raise ValueError(
            f"{name}: key_padding_mask must be None for packed x, in which padding is a document "
            f"of actual_seq_len, got {shown(mask)}"
        )
    if cache is not None:
        raise ValueError(
            f"{name}: key_padding_mask must be None with a cache: the tokens that are not padding, "
            f"packed, with their actual_seq_len go into it, got {shown(mask)}"
        )
    wrong = mask.shape is not None and (
        len(mask.shape) != 2
        or any(-1 not in (ours, its) and ours != its for ours, its in zip(mask.shape, x.shape))
    )
    if wrong:
        raise ValueError(
            f"{name}: key_padding_mask must be of shape {x.shape[:2]}, got {mask.shape}"
        )
    if mask.content is not None:
        raise ValueError(
            f"{name}: {PADDING_RULE}, got padding between those of row {mask.content[1]}; a mask "
            "that is True where tokens count has to be inverted"
        )
    return True


def check_padding(name: str, x: Tensor, cache: Any, key_padding_mask: Tensor) -> Any:
    """Raises the errors of a wrong mask; the type of `x` is known to be right."""
    return _plan_check_padding(name, x, cache, key_padding_mask)


_plan_check_padding = _PaddingPlanner(
    _plan_padding, check_padding, masks=("key_padding_mask",), kept=256
)


def _zeroed(x: Tensor, padding: Tensor) -> Tensor:
    return ops.select(padding, zeros_like(x), x)


def real_documents(x: Tensor, padding: Tensor, hidden: int) -> tuple[Any, ...]:
    """x [B, S, hidden] as packed tokens, 0 where they are padding, and 3 documents for each row."""
    shape = ops.shape(padding)
    length = shape[1]
    # Numbers of tokens are exact in float32; its minimum and maximum are there on every device.
    places = ops.cast(ops.arange(length), mindspore.float32)
    # A value of a whole Tensor is a sum, since CANN has its own operator for one by type only.
    first = ops.amin(ops.select(padding, zeros_like(places) + length, places), 1)
    last = ops.amax(ops.select(padding, zeros_like(places) - 1, places), 1)
    count = ops.sum(1 - ops.cast(padding, mindspore.float32), 1)
    stop = first + count
    # Prefix sums that fall are refused where their values are known, as PADDING_RULE.
    stop = ops.select(ops.logical_and(count > 0, last + 1 != stop), zeros_like(stop) - 1, stop)
    three = [ops.expand_dims(end, 1) for end in (first, stop, zeros_like(first) + length)]
    ends = ops.concat(three, 1)
    before = ops.expand_dims(ops.arange(shape[0]) * length, 1)
    ends = ops.reshape(ops.cast(ends, mindspore.int64) + before, (-1,))
    full = ops.cast(x, mindspore.float32)
    rows = ops.reshape(_zeroed(full, ops.expand_dims(padding, 2)), (-1, hidden))
    return ops.cast(rows, x.dtype), ends


def without_padding(out: Any, padding: Tensor, hidden: int) -> Tensor:
    """Packed outputs as rows [B, S, hidden], 0 where the tokens are padding."""
    shape = ops.shape(padding)
    rows = ops.reshape(ops.cast(out, mindspore.float32), (shape[0], shape[1], hidden))
    return ops.cast(_zeroed(rows, ops.expand_dims(padding, 2)), out.dtype)
