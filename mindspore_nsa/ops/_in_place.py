"""Operators that write into their arguments: a result that would be lost is an error.

MindSpore passes a Custom a copy of a Tensor that is a view, and of one that mixed precision casts.
What is written into the copy is lost, so neither may come to that.
"""

from functools import lru_cache, partial
from typing import Any

from .. import _native
from ._constexpr import Constexpr
from ._custom import custom, for_device, schema
from ._gradient import cache_operator, written_mark
from ._plan import DTYPE_NAMES, is_constant

# A Tensor of a device carries under this name how often operators were given it to write.
_WRITES = "nsa_writes"


def writes_of(tensor: Any) -> int:
    """How often operators were given a Tensor to write in PyNative mode on device Ascend.

    MindSpore does not count what a Custom writes.
    """
    return getattr(tensor, _WRITES, 0)


def is_view(tensor: Any) -> bool:
    """Whether this is part of another Tensor, of which an operator would get a copy to write."""
    if tensor._need_contiguous():
        return True
    # A device may give more memory than a Tensor needs.
    return tensor.device == "CPU" and tensor.untyped_storage().nbytes() != tensor.nbytes


class InPlace(Constexpr):
    """Gives what calls an operator that writes into its inputs `written`, for these Tensors.

    A graph first calls the second result with the Tensors, unless it is None. It marks them as
    written, and MindSpore then refuses views. The operator itself is not marked: MindSpore still
    runs what it refuses, on the beginning of the Tensor that is viewed. Constants are not marked,
    because a compiler then reads them before they are written.

    In PyNative mode MindSpore heeds no mark. What is plainly a view is refused at the call; the
    rest, among them views of a whole Tensor, by the operator if it `compares` where it is told that
    the Tensors lie. That is another Custom for Tensors elsewhere, of which MindSpore keeps some
    0.1 MB each: for Tensors that live long, not for those of every new cache.

    A Tensor that was cast in between is a TypeError then. In a graph casts come before the checks,
    which see them.

    Like a planner, it needs a name of its own in every module.
    """

    def __init__(self, op: str, instead: Any, written: Any, compares: Any) -> None:
        super().__init__(f"InPlace{op}")
        names = [spec["name"] for spec in schema(op)["inputs"]]
        self._op, self._instead, self._written = op, instead, written
        self._places = [names.index(name) for name in written]
        self._compares = compares

    def __call__(self, attrs: Any, *tensors: Any) -> tuple[Any, ...]:
        # The addresses that a device has are not those of PyNative mode.
        compares = self._compares and not for_device(attrs)
        for name, place, tensor in zip(self._written, self._places, tensors):
            if is_view(tensor):
                raise ValueError(
                    f"{schema(self._op)['function']}: {name} must be no view of another Tensor: it "
                    f"is written in place, and MindSpore passes a copy of a view, "
                    f"got one of shape {tensor.shape}"
                )
            if for_device(attrs) and tensor.device == "CPU":
                raise ValueError(
                    f"{schema(self._op)['function']}: {name} must be in the memory of the device, "
                    "as mindspore.ops.zeros makes it, or Tensor.move_to('Ascend'): it is written "
                    "in place, and what is on the host is copied for every call"
                )
            if for_device(attrs):
                setattr(tensor, _WRITES, writes_of(tensor) + 1)
            if compares:
                known = f"{DTYPE_NAMES[tensor.dtype]}@{tensor.data_ptr()}"
                attrs += f";written{place}=s{known}"
        operator = cache_operator(self._op, attrs, self._instead, writes=True)
        if not compares:
            return operator.call, None
        return partial(_call, operator.call, {tensor.dtype for tensor in tensors}), None

    def __infer__(self, attrs: Any, *tensors: Any) -> dict[Any, Any]:
        marked = tuple(not is_constant(tensor["value"]) for tensor in tensors)
        operator = cache_operator(self._op, attrs["value"], self._instead, writes=True)
        # The mark is a function of the native library, which runs on the CPU alone.
        marks = any(marked) and not for_device(attrs["value"])
        mark = written_mark(self._op, self._instead, marked) if marks else None
        return {"dtype": None, "shape": None, "value": (operator.call, mark)}


def _call(operator: Any, dtypes: Any, *inputs: Any) -> Any:
    """The operator's result, whose dtype is that of the Tensors as the operator gets them."""
    try:
        result = operator(*inputs)
        if dtypes != {result.dtype}:
            # Its error would come wherever a Tensor is read next.
            result.asnumpy()
        return result
    except RuntimeError as error:
        code, text = _native.last_failure()
        if code != "written cast" or text not in str(error):
            raise
        raise TypeError(text) from error


@lru_cache(maxsize=1)
def _row_copier() -> Any:
    operator = custom("NsaCopyRows", "", None)
    operator.add_prim_attr("side_effect_mem", True)
    return operator


def copy_rows(tensor: Any, pairs: Any) -> None:
    """Copy rows of a Tensor [B, ...] of any dtype within it; pairs: int64 [n, 2], (to, from)."""
    # Its one output says nothing but that it has run.
    _row_copier()(tensor, pairs).asnumpy()
