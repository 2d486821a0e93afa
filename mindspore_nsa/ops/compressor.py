"""Entries of windows of tokens: the pooling of DeepSeek V4's compressors."""

from typing import Any

import mindspore
from mindspore import Tensor, ops

from ._plan import FLOATS, Planner, TensorSpec, fail_type
from ._segment_rows import check_sums, check_tensor, segments
from ._window_pool import WindowPool

_FUNCTION = "compressor"
_pool = WindowPool()


def _plan_call(**given: Any) -> bool:
    kv, overlap = given["kv"], given["overlap"]
    if type(overlap) is not bool:
        fail_type(_FUNCTION, "overlap", "a bool", overlap)
    if not isinstance(kv, TensorSpec):
        fail_type(_FUNCTION, "kv", "a Tensor", kv)
    packed = given["cu_seqlens"] is not None
    for name, rank in (("kv", 2 if packed else 3), ("gate", 2 if packed else 3), ("ape", 2)):
        check_tensor(_FUNCTION, given, name, rank, FLOATS)
    channels = kv.shape[-1]
    for name, shape in (("gate", kv.shape), ("ape", (given["ape"].shape[0], channels))):
        if any(-1 not in pair and pair[0] != pair[1] for pair in zip(given[name].shape, shape)):
            raise ValueError(
                f"{_FUNCTION}: {name} must be of shape {shape}, got {given[name].shape}"
            )
    if 0 in (*kv.shape, *given["ape"].shape):
        raise ValueError(
            f"{_FUNCTION}: kv and ape must hold a token and a channel, got shapes {kv.shape} and "
            f"{given['ape'].shape}"
        )
    if overlap and channels % 2:
        raise ValueError(
            f"{_FUNCTION}: kv must have two sets of channels with overlap, got {channels} channels"
        )
    if packed:
        check_sums(_FUNCTION, given, "cu_seqlens", "kv")
    return True


def compressor(
    kv: Tensor,
    gate: Tensor,
    ape: Tensor,
    *,
    overlap: bool = False,
    cu_seqlens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Entries of windows of tokens, softmax-weighted for every channel.

    Window `w` of a segment has its tokens :math:`r w .. r w + r - 1`, and the entry
    :math:`\sum_t softmax_t(gate_t + ape_t) kv_t`. With `overlap` the channels are two sets, `a` and
    `b`: the softmax is over `b` of the window's own tokens and over `a` of the `r` tokens before,
    of which the first window has none. Tokens after the last full window make no entry. It is the
    pooling of CANN's operator of that name, without projections and state, with a gradient.

    Nothing is kept for the gradient but inputs and outputs; both passes work on some windows at a
    time, in at most 64 MB, in a graph at least on a 32nd of them.

    Args:
        kv (Tensor): Shape :math:`(B, S, c D)`, or :math:`(T, c D)` with `cu_seqlens`, dtype
            float16, bfloat16 or float32; `c` is 2 with `overlap`, else 1.
        gate (Tensor): The shape of `kv`.
        ape (Tensor): Bias of every token of a window, shape :math:`(r, c D)`.

    Keyword Args:
        overlap (bool, optional): Whether a window has the tokens of the one before, too.
            Default: ``False``.
        cu_seqlens (Tensor, optional): Prefix sums of the segments' tokens with a leading 0, shape
            :math:`(B + 1,)`, int64 or int32. Default: ``None``, rows are segments.

    Returns:
        Tuple of two Tensors.

        - **entries** - float32, shape :math:`(B, E, D)` with :math:`E = \max(S / r, 1)`, rounded
          down, or :math:`(E, D)` with :math:`E = \max(T / r, 1)`: those of the segments one after
          another, then 0. Differentiable by kv, gate and ape.
        - **cu_seqlens_cmp** - int32, shape :math:`(B + 1,)`: prefix sums of the segments' entries.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong.

    Supported Platforms:
        ``CPU``

    Examples:
        >>> import numpy as np
        >>> from mindspore import Tensor
        >>> from mindspore_nsa.ops import compressor
        >>> kv, gate = (Tensor(np.random.randn(2, 20, 64).astype(np.float32)) for _ in range(2))
        >>> ape = Tensor(np.random.randn(4, 64).astype(np.float32))
        >>> entries, sums = compressor(kv, gate, ape, overlap=True)
        >>> print(entries.shape, sums)
        (2, 5, 32) [ 0  5 10]
    """
    _plan_compressor(kv, gate, ape, overlap, cu_seqlens)
    rows, size = kv.shape[0], ape.shape[0]
    shape = None if cu_seqlens is not None else (rows, max(kv.shape[1] // size, 1), -1)
    sums, values = segments(
        _FUNCTION, "kv", ops.cast(kv, mindspore.float32), "cu_seqlens", cu_seqlens
    )
    gate = ops.reshape(ops.cast(gate, mindspore.float32), ops.shape(values))
    bias = ops.cast(ape, mindspore.float32)
    windows = ops.floor_divide(sums[1:] - sums[:-1], size)
    ended = ops.cast(ops.cumsum(windows, 0), mindspore.int32)
    ended = ops.concat((ops.zeros_like(ended[:1]), ended))
    if shape is None:
        number = ops.cast(ops.arange(max(values.shape[0] // size, 1)), mindspore.int32)
        segment = ops.cast(ops.searchsorted(ended[1:], number, right=True), mindspore.int32)
        segment = ops.minimum(segment, ops.full_like(segment, sums.shape[0] - 2))
        number = number - ops.gather(ended, segment, 0)
    else:
        place = ops.cast(ops.arange(rows * shape[1]), mindspore.int32)
        segment, number = ops.floor_divide(place, shape[1]), ops.floor_mod(place, shape[1])
    there = ops.expand_dims(number < ops.gather(windows, segment, 0), 1)
    first = ops.expand_dims(ops.gather(sums, segment, 0) + number * size, 1)
    own = first + ops.cast(ops.arange(size), mindspore.int32)
    own = ops.where(there, own, ops.full_like(own, -1))
    before = None
    if overlap:
        there = ops.logical_and(there, ops.expand_dims(number > 0, 1))
        before = ops.where(there, own - size, ops.full_like(own, -1))
    entries = pooled_windows(values, gate, bias, own, before)
    return (entries if shape is None else ops.reshape(entries, shape)), ended


def pooled_windows(
    values: Any, gate: Tensor, bias: Tensor, own: Tensor, before: Tensor | None = None
) -> Any:
    """Entries [E, D] of windows of packed tokens.

    Args:
        values, gate (Tensor): float32 [T, D], or [T, 2 D] with `before`.
        bias (Tensor): [r, D] or [r, 2 D].
        own (Tensor): The window's tokens, int32 [E, r], -1 for none.
        before (Tensor, optional): Those before [E, r], which have the first set of channels.
    """
    if before is None:
        return _pool(values, gate, bias, own)[0]
    # The two sets of channels of a token become two rows, without a copy.
    dim = values.shape[1] // 2
    values, gate = ops.reshape(values, (-1, dim)), ops.reshape(gate, (-1, dim))
    bias = ops.concat((bias[:, :dim], bias[:, dim:]), 0)
    before = ops.where(before >= 0, before * 2, before)
    own = ops.where(own >= 0, own * 2 + 1, own)
    return _pool(values, gate, bias, ops.concat((before, own), 1))[0]


_plan_compressor = Planner(_plan_call, compressor, lists=("cu_seqlens",))
