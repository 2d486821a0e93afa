"""Packing: what a layer must know of its input before it can call the operators.

The operators take packed tokens [T, ...] and the prefix sums of the documents' lengths. A batch
[B, S, hidden] is the packed input of B documents of S tokens.
"""

from functools import lru_cache
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops

from .. import _native
from ..ops import compressed_seq_len
from ..ops._by_device import take_rows
from ..ops._custom import CACHE_SIZE, constant, custom
from ..ops._plan import FLOATS, Planner, TensorSpec, fail_type, host_values, shown
from ..ops._types import IntList
from .rotary import LIMIT

# Plans hold the position of every token, which is much where lists change from step to step.
_KEPT = 32
_FIRST = constant(np.zeros(1, np.int64))


def check_input(name: str, x: Tensor, hidden: int) -> None:
    """The rules of a layer's input."""
    expected = f"[B, S, {hidden}] or [T, {hidden}]"
    if not isinstance(x, TensorSpec):
        fail_type(name, "x", "a Tensor", x)
    if x.dtype not in FLOATS:
        dtype = x.native()[0]
        raise TypeError(f"{name}: x must be of dtype float16, bfloat16 or float32, got {dtype}")
    if x.shape is None:
        raise ValueError(f"{name}: x must be of known rank, {expected}, got an unknown one")
    if len(x.shape) not in (2, 3) or x.shape[-1] not in (-1, hidden):
        raise ValueError(f"{name}: x must be of shape {expected}, got {x.shape}")
    if 0 in x.shape:
        raise ValueError(f"{name}: x must hold at least one token, got shape {x.shape}")


def is_int(value: Any) -> bool:
    """Whether a value is an int, of NumPy or not; a bool is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _fail_empty(name: str, argument: str = "actual_seq_len") -> None:
    raise ValueError(f"{name}: {argument} must not be empty")


def check_length(name: str, length: int) -> None:
    """The rule of a document's length, for which there have to be rotary angles."""
    if length > LIMIT:
        raise ValueError(
            f"{name}: x must hold documents of at most {LIMIT} tokens, for which there are rotary "
            f"angles, got one of {length}"
        )


def check_ends(name: str, ends: Any, tokens: Any, argument: str = "actual_seq_len") -> None:
    """The rules of sequence lists; `tokens` is -1 where their number is not known."""
    if len(ends) == 0:
        _fail_empty(name, argument)
    before = 0
    for i, end in enumerate(ends):
        if not is_int(end):
            raise TypeError(f"{name}: {argument} must hold ints, got {shown(end)} at index {i}")
        if end < before:
            raise ValueError(
                f"{name}: {argument} must be non-negative and not decrease (prefix sums), "
                f"got {end} after {before} at index {i}"
            )
        check_length(name, end - before)
        before = end
    if tokens != -1 and before != tokens:
        raise ValueError(
            f"{name}: the last value of the prefix sums {argument} must be the {tokens} tokens of "
            f"x, got {before}"
        )


def check_tensor(name: str, seq_len: Any) -> None:
    """The rules of a Tensor of prefix sums."""
    if seq_len.dtype not in (mindspore.int64, mindspore.int32):
        dtype = seq_len.native()[0]
        raise TypeError(f"{name}: actual_seq_len must be of dtype int64 or int32, got {dtype}")
    if seq_len.shape is not None and len(seq_len.shape) != 1:
        raise ValueError(f"{name}: actual_seq_len must be of rank 1, got shape {seq_len.shape}")
    if seq_len.shape == (0,):
        _fail_empty(name)


def _documents(name: str, x: Tensor, seq_len: Any) -> tuple[Any, ...] | None:
    """Prefix sums as a tuple; None where they are a Tensor or follow from unknown dimensions."""
    if isinstance(seq_len, (tuple, list)) and any(isinstance(end, Tensor) for end in seq_len):
        raise TypeError(
            f"{name}: actual_seq_len must be a tuple or list of ints or a Tensor, got Tensors, as "
            f"a cache holds them: a cache is given by name, cache=cache"
        )
    if isinstance(seq_len, np.ndarray) and seq_len.ndim == 1 and seq_len.dtype.kind in "iu":
        # A graph holds it as an array; outside of one it comes as a tuple.
        seq_len = seq_len.tolist()
    if len(x.shape) == 3:
        if seq_len is not None:
            instead = ""
            if isinstance(seq_len, TensorSpec) and not (seq_len.shape and len(seq_len.shape) == 1):
                instead = (
                    "; a mask of padding is given by name, key_padding_mask=mask, and the layer "
                    "makes keys and values of x itself"
                )
            raise ValueError(
                f"{name}: actual_seq_len must be None for x of shape [B, S, hidden], whose rows "
                f"are the documents, got {shown(seq_len)}{instead}"
            )
        batch, length = x.shape[:2]
        check_length(name, length)
        if -1 in (batch, length):
            return None
        return tuple(range(length, batch * length + 1, length))
    if seq_len is None:
        raise ValueError(
            f"{name}: actual_seq_len must be given for packed x of shape {x.shape}, got None"
        )
    if isinstance(seq_len, TensorSpec):
        check_tensor(name, seq_len)
        if seq_len.content is not None:
            check_ends(name, seq_len.content, x.shape[0])
        values = host_values(seq_len)
        return values if isinstance(values, tuple) and values is not seq_len else None
    if not isinstance(seq_len, (tuple, list)):
        fail_type(name, "actual_seq_len", "a tuple or list of ints or a Tensor", seq_len)
    check_ends(name, seq_len, x.shape[0])
    return tuple(map(int, seq_len))


@lru_cache(maxsize=CACHE_SIZE)
def _list_check(text: str) -> Any:
    def bprop(ends: Any, tokens: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        return ops.zeros_like(ends), ops.zeros_like(tokens)

    return custom("NsaCheckEnds", text, bprop)


def _plan_list_check(name: str, seq_len: Any, instead: Any, tokens: Any) -> Any:
    known = not isinstance(seq_len, TensorSpec) or seq_len.content is not None
    if known or mindspore.context.get_context("device_target") == "Ascend":
        return None
    return _list_check(f"{LIMIT} {name}" + ("" if instead is None else f"\n{instead}"))


def checked_ends(name: str, seq_len: Any, instead: str | None, tokens: Any) -> Any:
    """A Tensor of prefix sums whose values nobody has checked yet, in terms of the layer.

    Without this an operator inside of the layer would refuse them, in terms of its own.

    Args:
        name: Name of the layer.
        seq_len: The prefix sums, int64.
        instead: What to say of wrong ones where the user gave no `actual_seq_len`, or None.
        tokens: A Tensor of one dimension, which has the size that the last sum must be.
    """
    check = _plan_ends(name, seq_len, instead, tokens)
    if check is None:
        return seq_len
    return check(seq_len, tokens)


_plan_ends = Planner(_plan_list_check, checked_ends, lists=("seq_len",))


def _positions(ends: Any) -> Any:
    """Position of every token in its document, int32 [T]."""
    lengths = np.diff(ends, prepend=0)
    starts = np.asarray(ends) - lengths
    return (np.arange(ends[-1]) - np.repeat(starts, lengths)).astype(np.int32)


def _plan_call(name: str, x: Any, actual_seq_len: Any, hidden: Any) -> tuple[Any, ...]:
    """(hidden, whether the width of x is known, and its tokens, prefix sums, positions).

    The last two are None where they are computed at run time.
    """
    check_input(name, x, hidden)
    ends = _documents(name, x, actual_seq_len)
    tokens = -1 if -1 in x.shape[:-1] else int(np.prod(x.shape[:-1]))
    known = x.shape[-1] != -1, tokens != -1
    if ends is None:
        return hidden, *known, None, None
    return hidden, *known, ends, constant(_positions(ends))


def document_positions(ends: Any, indices: Tensor) -> Any:
    """Position in its document of each of the rows `indices`, for documents that end at `ends`."""
    document = ops.searchsorted(ends, indices, right=True)
    return indices - take_rows(ops.concat((_FIRST, ends)), document)


def planned(name: str, x: Tensor, actual_seq_len: IntList, hidden: int) -> Any:
    """Return the result of `_plan_call`, or raise the error of a wrong input."""
    return _plan_packing(name, x, actual_seq_len, hidden)


_plan_packing = Planner(_plan_call, planned, lists=("actual_seq_len",), kept=_KEPT)


def pack(
    name: str,
    x: Tensor,
    actual_seq_len: IntList,
    hidden: int,
    narrow: bool = False,
    instead: str | None = None,
) -> tuple[Any, ...]:
    """(packed x in float32, prefix sums, positions); raises the errors of a wrong input.

    `narrow`: packed x is x as it is. Not all of MindSpore's operators take bfloat16. `instead`: as
    for `checked_ends`.

    The prefix sums are a tuple where they are known when a graph is compiled, else a Tensor.
    """
    # The size comes out of the plan, so that a compiler sees the plan's errors before those of the
    # reshape.
    hidden, measured, counted, ends, positions = planned(name, x, actual_seq_len, hidden)
    if narrow:
        packed = x
    else:
        # With a width of its own, where that is not known, so that the products refuse another.
        width = hidden if measured else ops.shape(x)[-1]
        packed = ops.reshape(ops.cast(x, mindspore.float32), (-1, width))
    if not counted:
        # Empty tensors make MindSpore's CPU kernels divide by zero, which ends the process: to read
        # a token that is not there is an error instead, before anything else runs.
        packed = ops.depend(packed, ops.gather(packed, _FIRST, 0))
    if positions is not None:
        return packed, ends, positions
    shape = ops.shape(x)
    if len(shape) == 3:
        # After what finds that there is no token, which is said first.
        ends = ops.depend((ops.arange(shape[0]) + 1) * shape[1], packed)
        tokens = ops.arange(shape[0] * shape[1])
    else:
        tokens = ops.arange(shape[0])
        ends = ops.cast(actual_seq_len, mindspore.int64)
    ends = checked_ends(name, ends, instead, tokens)
    return packed, ends, document_positions(ends, tokens)


def _plan_windows(x: Any, ends: Any, size: Any, stride: Any) -> tuple[Any, ...]:
    """(rows, prefix sums, positions) of compressed tokens, None for what follows at run time.

    There is a row even without a window, as `Compression` needs it.
    """
    tokens = x.shape[0]
    if isinstance(ends, TensorSpec):
        return None if tokens == -1 else max(1, (tokens - size) // stride + 1), None, None
    sums = _native.compressed_seq_len(ends, size, stride)
    if sums[-1] == 0:
        return 1, sums, constant(np.zeros(1, np.int32))
    return sums[-1], sums, constant(_positions(sums) * np.int32(stride))


def compressed_documents(x: Tensor, ends: Any, size: int, stride: int) -> tuple[Any, ...]:
    """(rows, prefix sums, positions) of the tokens that windows of the documents of x become.

    A compressed token stands at the position of its window's first token.
    """
    rows, sums, positions = _plan_compressed(x, ends, size, stride)
    if sums is None:
        sums = compressed_seq_len(ends, size, stride)
        count = ops.shape(x)[0] // stride + 1 if rows is None else rows
        positions = document_positions(sums, ops.arange(count)) * stride
    return rows, sums, positions


_plan_compressed = Planner(_plan_windows, compressed_documents, kept=_KEPT)
