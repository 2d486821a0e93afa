"""Operators of CANN's custom operator package, by their aclnn functions."""

from functools import cached_property, lru_cache

import mindspore
from mindspore import ops
from mindspore.ops import CustomRegOp, DataType

from ._custom import library

# The aclnn order of arguments is that of the operator's definition: tensors, then what the host
# knows, then outputs. A sequence list is host data there.
_SIGNATURES = {
    "NsaCompress": (
        ("input", "weight"),
        (
            ("actSeqLenOptional", "listInt"),
            ("layoutOptional", "str"),
            ("compressBlockSize", "int"),
            ("compressStride", "int"),
            ("actSeqLenType", "int"),
        ),
        ("output",),
    ),
    "NsaCompressGrad": (
        ("outputGrad", "input", "weight"),
        (
            ("actSeqLenOptional", "listInt"),
            ("compressBlockSize", "int"),
            ("compressStride", "int"),
            ("actSeqLenType", "int"),
            ("layoutOptional", "str"),
        ),
        ("inputGradOut", "weightGradOut"),
    ),
}


@lru_cache(maxsize=len(_SIGNATURES))
def _registration(op):
    """What MindSpore wants to know of an aclnn function."""
    tensors, values, outputs = _SIGNATURES[op]
    info = CustomRegOp(f"aclnn{op}")
    for i, name in enumerate(tensors):
        info = info.input(i, name, param_type="required")
    for name, kind in values:
        info = info.attr(name, "required", kind)
    for i, name in enumerate(outputs):
        info = info.output(i, name, param_type="required")
    for dtype in (DataType.F16_Default, DataType.BF16_Default):
        info = info.dtype_format(*[dtype] * (len(tensors) + len(outputs)))
    return info.target("Ascend").get_op_info()


class AclnnCustom(ops.Custom):
    """A Custom whose arguments are the Tensors and values of an aclnn function, in its order.

    MindSpore takes values other than Tensors only in a graph, so a call in PyNative mode is a
    graph of one operator.
    """

    def __init__(self, op, attrs, bprop):
        super().__init__(
            f"{library()}:aclnn{op}", None, None, "aot", bprop=bprop, reg_info=_registration(op)
        )
        self.add_prim_attr("nsa_attrs", attrs)

    @cached_property
    def _graph(self):
        def call(*args):
            return self(*args)

        return mindspore.jit(call, jit_level="O0")

    def __call__(self, *args):
        return self._graph(*args)
