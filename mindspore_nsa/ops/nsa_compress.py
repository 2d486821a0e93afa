"""Compression of token blocks into single tokens: a weighted sum over sliding windows."""

from functools import lru_cache
from numbers import Integral
from typing import Any

from mindspore import Tensor

from .. import _native
from ._custom import CACHE_SIZE, encode_attrs, native_operator
from ._gradient import gradient_operator
from ._plan import NativeCall, Planner, TensorSpec
from ._types import IntList
from .generated.nsa_compress import NsaCompressGiven, bprop_of_nsa_compress, call_nsa_compress

_OP = "NsaCompress"
_GRAD = "NsaCompressGrad"
_FUNCTION = "nsa_compress"


@lru_cache(maxsize=CACHE_SIZE)
def _operator(attrs: Any, gradient_attrs: str, given: NsaCompressGiven) -> Any:
    gradient = gradient_operator(_GRAD, gradient_attrs, _FUNCTION)
    return native_operator(_OP, attrs, bprop_of_nsa_compress(gradient.call, given))


def _plan_call(**given: Any) -> tuple[Any, ...]:
    rows = given["num_windows"]
    if rows is None:
        del given["num_windows"]
    elif isinstance(rows, Integral) and rows < 0:
        # -1 stands for None in the native operator.
        raise ValueError(f"{_FUNCTION}: num_windows must be None or >= 0, got {rows}")
    call = NativeCall(_OP, given)
    call.infer()
    seq_len = given["actual_seq_len"]
    window = {name: given[name] for name in ("compress_block_size", "compress_stride")}
    constant = not isinstance(seq_len, TensorSpec)
    if constant and "num_windows" not in given:
        call.attrs["num_windows"] = _native.compressed_rows(seq_len, **window)
    gradient_attrs = encode_attrs(_GRAD, window)
    operator = _operator(call.text(), gradient_attrs, call.bprop_given())
    return operator.call, call.stand_ins()


def nsa_compress(
    input: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    *,
    actual_seq_len: IntList,
    num_windows: int | None = None,
) -> Tensor:
    r"""Compress a packed sequence with a learned weighted sum over sliding windows.

    Window :math:`i` of a segment that starts at token :math:`c_b` gives one output row,

    .. math::
        out[row, h, d] = \sum_{j < l} weight[j, h] \cdot input[c_b + i s + j, h, d]

    with :math:`l` = `compress_block_size` and :math:`s` = `compress_stride`. Windows never cross
    segments; tokens at the end of a segment that fill no window are dropped, and a segment shorter
    than :math:`l` gives no row.

    Args:
        input (Tensor): Shape :math:`(T, N, D)`, dtype float16, bfloat16 or float32.
        weight (Tensor): Shape :math:`(l, N)`, a dtype of the same list. Where the dtypes differ,
            both are promoted to the wider one (float16 with bfloat16: float32).
        compress_block_size (int): Tokens of a window, at least `compress_stride`.
        compress_stride (int): Tokens between the starts of neighbouring windows, at least 1.

    Keyword Args:
        actual_seq_len (Union[tuple[int], list[int], Tensor]): Inclusive prefix sums of the segment
            lengths; the last one is :math:`T`. A Tensor has shape :math:`(B,)` and dtype int64 or
            int32, and its values may change from call to call without a new graph.
        num_windows (int, optional): Rows of the output. Default: ``None``, the number of windows
            where `actual_seq_len` is a tuple or list, and :math:`T // s`, which is always enough,
            where it is a Tensor. Rows past the windows are zero and get no gradient.

    Returns:
        Tensor, shape :math:`(T', N, D)`.

    Raises:
        TypeError: If an argument has the wrong type or dtype.
        ValueError: If a rank, shape or value is wrong, or `num_windows` is too small.
        RuntimeError: If that is found out only when a compiled graph runs.

    Supported Platforms:
        ``CPU`` ``Ascend``

    Examples:
        >>> import numpy as np
        >>> import mindspore_nsa
        >>> from mindspore import Tensor
        >>> x = Tensor(np.random.randn(256, 8, 128).astype(np.float16))
        >>> w = Tensor(np.full((64, 8), 1 / 64, np.float16))
        >>> y = mindspore_nsa.nsa_compress(x, w, 64, 16, actual_seq_len=(80, 176, 256))
        >>> print(y.shape)
        (7, 8, 128)
    """
    operator, c = _plan_nsa_compress(
        input, weight, compress_block_size, compress_stride, actual_seq_len, num_windows
    )
    return call_nsa_compress(operator, c, input=input, weight=weight, actual_seq_len=actual_seq_len)


_plan_nsa_compress = Planner(_plan_call, nsa_compress, op=_OP)
