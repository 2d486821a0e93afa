"""Operators that write into their arguments: a result that would be lost is an error.

MindSpore passes a Custom a copy of a Tensor that is a view, and of one that mixed precision casts.
What is written into the copy is lost, so neither may come to that.
"""

from ._constexpr import Constexpr
from ._custom import schema
from ._gradient import cache_operator, written_mark


class InPlace(Constexpr):
    """The Custom of an operator that writes into its inputs `written`, for these Tensors.

    A graph first calls the second result with the Tensors, unless it is None. It marks them as
    written, and MindSpore then refuses views. The operator itself is not marked: MindSpore still
    runs what it refuses, on the beginning of the Tensor that is viewed. Constants are not marked,
    because a compiler then reads them before they are written.

    In PyNative mode MindSpore heeds no mark. What is plainly a view is refused at the call; the
    rest, among them views of a whole Tensor, by the operator if it `compares` where it is told that
    the Tensors lie. That is another Custom for Tensors elsewhere, of which MindSpore keeps some
    0.1 MB each: for Tensors that live long, not for those of every new cache.

    Like a planner, it needs a name of its own in every module.
    """

    def __init__(self, op, instead, written, compares):
        super().__init__(f"InPlace{op}")
        names = [spec["name"] for spec in schema(op)["inputs"]]
        self._op, self._instead, self._written = op, instead, written
        self._places = [names.index(name) for name in written]
        self._compares = compares

    def __call__(self, attrs, *tensors):
        for name, place, tensor in zip(self._written, self._places, tensors):
            if tensor._need_contiguous():
                raise ValueError(
                    f"{schema(self._op)['function']}: {name} must be no view of another Tensor: it "
                    f"is written in place, and MindSpore passes a copy of a view, "
                    f"got one of shape {tensor.shape}"
                )
            if self._compares:
                attrs += f";address{place}=i{tensor.data_ptr()}"
        return cache_operator(self._op, attrs, self._instead, writes=True), None

    def __infer__(self, attrs, *tensors):
        values = [tensor["value"] for tensor in tensors]
        # A tensor that is no constant comes as None (2.7.1) or as an empty one (2.10).
        marked = tuple(v is None or getattr(v, "created_empty_tensor", False) for v in values)
        operator = cache_operator(self._op, attrs["value"], self._instead, writes=True)
        mark = written_mark(self._op, self._instead, marked) if any(marked) else None
        return {"dtype": None, "shape": None, "value": (operator, mark)}


class CastCheck(Constexpr):
    """Raises the error of a Tensor that mixed precision has cast: `rows` of it have another dtype.

    In a graph casts come before the checks, which see them.
    """

    def __init__(self):
        super().__init__("CheckCast")

    def __call__(self, function, name, tensor, rows):
        if tensor.dtype == rows.dtype:
            return True
        try:
            # The operator's own error would come wherever a Tensor is read next.
            rows.asnumpy()
        except RuntimeError as error:
            raise TypeError(
                f"{function}: {name} must be of the dtype that mixed precision casts it to: it is "
                f"written in place, and a cast Tensor is a copy, "
                f"got {tensor.dtype} in place of {rows.dtype}"
            ) from error
        return True

    def __infer__(self, *args):
        return {"dtype": None, "shape": None, "value": True}


check_cast = CastCheck()
