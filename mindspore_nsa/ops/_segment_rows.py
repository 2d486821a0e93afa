"""Tokens of segments as rows of packed tensors: what compositions of operators share."""

from functools import lru_cache
from typing import Any

import mindspore
from mindspore import Tensor, ops

from ._custom import CACHE_SIZE, custom
from ._plan import Planner, TensorSpec, fail_type, shown


def check_int(function: str, given: dict[str, Any], name: str, least: Any) -> None:
    """The rule of an int argument."""
    value = given[name]
    if type(value) is not int:
        raise TypeError(f"{function}: {name} must be an int, got {shown(value)}")
    if value < least:
        raise ValueError(f"{function}: {name} must be >= {least}, got {value}")


def check_choice(function: str, given: dict[str, Any], name: str, known: Any) -> None:
    """The rule of an argument with a few values."""
    if given[name] not in known or isinstance(given[name], bool):
        words = " or ".join(map(repr, known))
        raise ValueError(f"{function}: {name} must be {words}, got {shown(given[name])}")


def check_tensor(
    function: str, given: dict[str, Any], name: str, rank: Any, dtypes: Any = None
) -> None:
    """The rules of a Tensor's rank and dtype."""
    spec = given[name]
    if not isinstance(spec, TensorSpec):
        fail_type(function, name, "a Tensor", spec)
    if dtypes is not None and spec.dtype not in dtypes:
        expected = " or ".join(str(dtype).lower() for dtype in dtypes)
        raise TypeError(f"{function}: {name} must be of dtype {expected}, got {spec.native()[0]}")
    if spec.shape is None or len(spec.shape) != rank:
        raise ValueError(f"{function}: {name} must be of rank {rank}, got shape {spec.shape}")


INTS = mindspore.int64, mindspore.int32

# Sentences of wrong lists, before and after the number of tokens that they divide.
_SUMS = (
    "must be prefix sums that begin with 0, do not decrease and end at most at the ",
    " tokens of {x}",
)
_LENGTHS = "must be in [0, ", "], the tokens of a row of {x}"


def check_sums(function: str, given: dict[str, Any], name: str, x: Tensor) -> None:
    """The rules of prefix sums with a leading 0 of the segments of `x`, [T, ...]."""
    check_tensor(function, given, name, 1, INTS)
    sums, tokens = given[name].content, given[x].shape[0]
    if given[name].shape[0] in (0, 1):
        raise ValueError(
            f"{function}: {name} must hold a 0 and the end of at least one segment, got shape "
            f"{given[name].shape}"
        )
    if sums is None:
        return
    ordered = all(first <= second for first, second in zip(sums, sums[1:]))
    if sums[0] != 0 or not ordered or tokens not in (-1, max(tokens, sums[-1])):
        raise ValueError(_sentence(function, name, _SUMS, tokens, x) + shown(list(sums)))


def _sentence(function: str, name: str, parts: Any, number: Any, x: Any) -> str:
    return f"{function}: {name} {parts[0]}{number}{parts[1].format(x=x)}, got "


def check_lengths(function: str, given: dict[str, Any], name: str, x: Tensor) -> None:
    """The rules of the lengths in use of the rows of `x`, [B, S, ...]."""
    check_tensor(function, given, name, 1, INTS)
    used, (rows, most) = given[name].content, given[x].shape[:2]
    if -1 not in (rows, given[name].shape[0]) and rows != given[name].shape[0]:
        raise ValueError(
            f"{function}: {name} must be of shape ({rows},), one for every row of {x}, got "
            f"{given[name].shape}"
        )
    if used is not None and most != -1 and not all(0 <= length <= most for length in used):
        raise ValueError(_sentence(function, name, _LENGTHS, most, x) + shown(list(used)))


@lru_cache(maxsize=CACHE_SIZE)
def _list_check(text: str) -> Any:
    def bprop(values: Any, x: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        return ops.zeros_like(values), ops.zeros_like(x)

    return custom("NsaCheckList", text, bprop)


def _plan_values(function: str, name: str, of: str, values: Any, x: Any) -> Any:
    if values.content is not None or mindspore.context.get_context("device_target") == "Ascend":
        return None
    sums = name.startswith("cu_")
    before, after = _SUMS if sums else _LENGTHS
    kind = "sums" if sums else "lengths"
    return _list_check(f"{kind}\n{function}: {name} {before}\n{after.format(x=of)}")


def checked_values(function: str, name: str, of: str, values: Any, x: Tensor) -> Any:
    """A list whose values `check_sums` or `check_lengths` did not know: a graph reads them here.

    Args:
        function: Name of the operator.
        name: Of the list: those of prefix sums begin with "cu_".
        of: Name of x.
        values: The list, a Tensor.
        x: What it divides.
    """
    check = _plan_checked_values(function, name, of, values, x)
    if check is None:
        return values
    return check(ops.cast(values, mindspore.int64), ops.stop_gradient(x))


_plan_checked_values = Planner(_plan_values, checked_values, lists=("values",))


def segments(function: str, of: str, x: Tensor, name: str, cu_seqlens: Any) -> tuple[Any, ...]:
    """Prefix sums of segments with a leading 0, int32 [B + 1], and x as packed rows."""
    shape = ops.shape(x)
    if cu_seqlens is not None:
        return ops.cast(checked_values(function, name, of, cu_seqlens, x), mindspore.int32), x
    sums = ops.cast(ops.arange(shape[0] + 1) * shape[1], mindspore.int32)
    return sums, ops.reshape(x, (shape[0] * shape[1], *shape[2:]))


def lengths(sums: Any, segment: Any) -> Tensor:
    """Length of each of the segments `segment`."""
    return ops.gather(sums[1:] - sums[:-1], segment, 0)


def places(sums: Any, rows: Any) -> tuple[Any, ...]:
    """Segment and place in it of each of as many `rows` of x, int32 [T].

    Rows after the last segment count as its own.
    """
    row = ops.cast(ops.arange(rows), mindspore.int32)
    # ops.searchsorted has dtype int64 for positions, unless told otherwise.
    segment = ops.cast(ops.searchsorted(sums[1:], row, right=True), mindspore.int32)
    segment = ops.minimum(segment, ops.full_like(segment, sums.shape[0] - 2))
    return segment, row - ops.gather(sums, segment, 0)


def visible(
    keys: Tensor,
    queries: Tensor,
    place: Tensor,
    ratio: int,
    residual: Tensor | None,
    segment: Tensor,
) -> Tensor:
    """Compressed keys that every query sees: those that have ended, int32 [T].

    Args:
        keys (Tensor): Compressed keys of the query's segment [T].
        queries (Tensor): Queries of its segment [T].
        place (Tensor): The query's place in its segment [T].
        ratio (int): Tokens that a key stands for.
        residual (Tensor, optional): Tokens after the last key of every segment [B].
        segment (Tensor): Segment of every query [T].
    """
    total = keys * ratio + place + 1 - queries
    if residual is not None:
        total = total + ops.gather(ops.cast(residual, mindspore.int32), segment, 0)
    return ops.minimum(keys, ops.floor_divide(total, ratio))


def rows_of(numbers: Any, stop: Any, sums: Any, segment: Any, offset: int = 0) -> Tensor:
    """Rows [T, n] of numbers in [0, stop) of segments, -1 for the others, int32."""
    rows = numbers + ops.expand_dims(ops.gather(sums, segment, 0) + offset, 1)
    there = ops.logical_and(numbers >= 0, numbers < stop)
    return ops.where(there, rows, ops.full_like(rows, -1))
