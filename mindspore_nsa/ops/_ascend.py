"""Operators of CANN's custom operator package, by their aclnn functions.

What an aclnn function takes, and in which order, is the definition of the operator in `ascendc/`;
`_native.ascend_signature` gives it in terms of the operator's inputs, attributes and outputs.
"""

import json
import os
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import mindspore
from mindspore import ops
from mindspore.common._grad_function import _Function
from mindspore.ops import CustomRegOp, DataType

from .. import _native
from ._by_device import zeros_like
from ._custom import CALLS, library, on_device, schema
from ._environment import release
from ._operands import LIST_ABSENT, LIST_TENSOR, LIST_TUPLE
from .generated import ACLNN

_FORMATS = {
    "float16": DataType.F16_Default,
    "bfloat16": DataType.BF16_Default,
    "float32": DataType.F32_Default,
    "bool": DataType.BOOL_Default,
    "uint8": DataType.U8_Default,
    "int32": DataType.I32_Default,
    "int64": DataType.I64_Default,
}


# C types of an argument by its kind.
_TYPES = {
    "tensor": "aclTensor*",
    "listInt": "aclIntArray*",
    "listFloat": "aclFloatArray*",
    "listBool": "aclBoolArray*",
    "bool": "bool",
    "double": "double",
    "int": "int64_t",
    "str": "char*",
}
# MindSpore passes an argument of this type as a null pointer where it is None.
_ABSENT_TYPE = "aclIntArray*"
_NEEDS = (2, 9)  # before, MindSpore knew no "char*"


def _check_mindspore() -> None:
    """Target ascend has functions that take strings, which an older MindSpore cannot pass."""
    version = mindspore.__version__
    if release(version)[:2] < _NEEDS:
        raise RuntimeError(
            f"mindspore_nsa: target 'ascend' needs MindSpore 2.9 or later, got {version}: the "
            "operators' functions take strings, which it cannot pass"
        )


def _header(folder: str | Path, function: str) -> Path:
    """The header of an aclnn function in a package of operators."""
    name = re.sub(r"\B([A-Z])", r"_\1", function[5:]).lower()
    return Path(folder, "op_api", "include", f"aclnn_{name}.h")


def _declared(text: str, function: str) -> list[tuple[str, str]]:
    """Types and names of the function's arguments by its header, but for its last two."""
    found = re.search(rf"{function}GetWorkspaceSize\((.*?)\)", text, re.DOTALL)
    declared = [re.sub(r"\bconst\b|\s+", " ", x) for x in found[1].split(",")] if found else []
    pairs = [re.match(r"\s*(.+?)\s*(\w+)\s*$", argument) for argument in declared]
    return [(pair[1].replace(" ", ""), pair[2]) for pair in pairs if pair][:-2]


def _dtypes(folder: str | Path, op: str) -> Iterator[dict[str, list[str]]]:
    """{name: dtypes} of an operator's Tensors by CANN's description of a package, of each SoC."""
    configs = Path(folder).glob("op_impl/ai_core/tbe/config/*/aic-*-ops-info.json")
    for config in sorted(configs):
        described = json.loads(config.read_text()).get(_native.ascend_type(op), {})
        tensors = [x for key, x in described.items() if re.match(r"(in|out)put\d+$", key)]
        yield {x["name"]: x["dtype"].replace(" ", "").split(",") for x in tensors}


def _plain(name: str) -> str:
    """A name as CANN and its descriptions have it: optional or an output is in it or not."""
    return re.sub(r"(optional|out)$", "", name.replace("_", "").lower()) or name


def _difference(folder: str | Path, op: str) -> str | None:
    """In what a package's function is another one than that which is called, or None."""
    signature = _native.ascend_signature(op)
    declared = _declared(_header(folder, _function(op)).read_text(), _function(op))
    if len(declared) != len(signature):
        return f"has {len(declared)} arguments, not {len(signature)}"
    for place, ((type_, name), ours) in enumerate(zip(declared, signature), 1):
        wanted = _TYPES[ours["kind"]]
        if type_ != wanted or _plain(name) != _plain(ours["name"]):
            return f"has {type_} {name} as argument {place}, not {wanted} {ours['name']}"
    by_name = {_plain(x["name"]): x["dtypes"] for x in signature if x["kind"] == "tensor"}
    for described in _dtypes(folder, op):
        for name, dtypes in described.items():
            theirs = ["float32" if dtype == "float" else dtype for dtype in dtypes]
            expected = by_name.get(_plain(name), theirs)
            if expected and theirs != expected:
                return f"takes {', '.join(theirs)} for {name}, not {', '.join(expected)}"
    return None


@cache
def _check_package(op: str) -> None:
    """The package that MindSpore will find has the function that is called.

    Its arguments may be as many and others, so types, names, their order and dtypes are compared.
    """
    for folder in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":"):
        if not folder or not _header(folder, _function(op)).is_file():
            continue
        difference = _difference(folder, op)
        if difference:
            raise RuntimeError(
                f"the operators' package in {folder} is of another version of mindspore_nsa: its "
                f"{_function(op)} {difference}; build it again with 'make ascend'"
            )
        return


@cache
def _function(op: str) -> str:
    """Name of an operator's aclnn function."""
    return f"aclnn{_native.ascend_type(op)}"


@cache
def _parameters(op: str, role: Any) -> tuple[Any, ...]:
    """Parameters of an aclnn function, in its order: its outputs, or all before them."""
    found = _native.ascend_signature(op)
    return tuple(p for p in found if (p["role"] == "output") == (role == "output"))


@lru_cache
def _registration(op: str) -> Any:
    """Register an aclnn function with MindSpore: Tensors, then the rest, then outputs."""
    info = CustomRegOp(_function(op))
    tensors: list[Any] = []
    for parameter in _parameters(op, "input"):
        leading = len(tensors) == len(info.attr_) + len(tensors) and parameter["kind"] == "tensor"
        if leading:
            kind = "optional" if parameter["optional"] else "required"
            info = info.input(len(tensors), parameter["name"], param_type=kind)
            tensors.append(parameter)
        else:
            # A Tensor that follows a list or a number, too: the order is what counts.
            info = info.attr(parameter["name"], "required", parameter["kind"])
    for i, parameter in enumerate(_parameters(op, "output")):
        info = info.output(i, parameter["name"], param_type="required")
        tensors.append(parameter)
    for dtypes in zip(*(parameter["dtypes"] for parameter in tensors)):
        info = info.dtype_format(*(_FORMATS[dtype] for dtype in dtypes))
    return info.target("Ascend").get_op_info()


def _to_call_with(argument: Any) -> Any:
    """The argument, a view of another Tensor copied, a constant of this package on the device."""
    if not isinstance(argument, mindspore.Tensor):
        return argument
    return argument.contiguous() if argument._need_contiguous() else on_device(argument)


def _run_time(argument: Any) -> Any:
    """The argument, the values of a list no constants of the graph.

    Nor is their number: each number of documents would be compiled anew.
    """
    return mindspore.mutable(argument, True) if type(argument) is tuple else argument


class _WithLists(_Function):
    """A call in PyNative mode whose lists the graph takes when it runs.

    MindSpore does not come back from differentiating such a graph, so the gradient is called here.
    """

    @staticmethod
    def forward(ctx: Any, custom: Any, *args: Any) -> Any:
        """The graph of one operator."""
        out = custom.graph(*[_run_time(arg) for arg in args])
        ctx.custom, ctx.args, ctx.out = custom, args, out
        # MindSpore makes its zeros by ZerosLike, which has no aclnn function.
        ctx.set_materialize_grads(False)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """None for what is no Tensor."""
        several = isinstance(ctx.out, tuple)
        outputs = ctx.out if several else (ctx.out,)
        pairs = zip(outputs, gradients, strict=True)
        douts = tuple([zeros_like(out) if g is None else g for out, g in pairs])
        found = ctx.custom.backward(*ctx.args, ctx.out, douts if several else douts[0])
        tensors = [isinstance(arg, mindspore.Tensor) for arg in ctx.args]
        return (None, *(g if given else None for g, given in zip(found, tensors)))


class AclnnCustom(ops.Custom):
    """A Custom whose arguments are the Tensors and values of an aclnn function, in its order.

    MindSpore takes values other than Tensors only in a graph, so a call in PyNative mode is a
    graph of one operator.

    Args:
        op: Name of the operator.
        attrs: Its attributes for the native inference.
        missing: Places of the arguments that are Tensors in the function, and None here.
        late: Whether its lists are Tensors, whose values are known when it runs.
        bprop: Its gradient.
    """

    def __init__(self, op: str, attrs: Any, missing: Any, late: bool, bprop: Any) -> None:
        # MindSpore writes into the registration that it is given, the name of the kernel too.
        info = deepcopy(_registration(op))
        function = f"{library()}:{_function(op)}"
        super().__init__(function, None, None, "aot", bprop=bprop, reg_info=info)
        self.backward = bprop
        self.add_prim_attr("nsa_attrs", attrs)
        types = [_TYPES[parameter["kind"]] for parameter in _native.ascend_signature(op)]
        # MindSpore refuses None for a Tensor, and makes a null pointer of it for a list, which is
        # what the function takes for an input that is not given, whatever its type.
        for place in missing:
            types[place] = _ABSENT_TYPE
        self.add_prim_attr("custom_inputs_type", types)
        self.add_prim_attr("custom_callback_func", function)
        if late:
            # MindSpore reads a Tensor that is a list for the function where it asks for the size
            # of the workspace. A kernel of open shapes does so in each step, after what computes
            # the list; any other once, when the graph is compiled.
            self.add_prim_attr("input_is_dynamic_shape", True)

    def _generate_get_workspace_size_func(self) -> None:
        """Nothing: the native library has what MindSpore would have g++ compile."""

    @cached_property
    def graph(self) -> Any:
        """A graph of this operator alone."""

        def call(*args: Any) -> Any:
            return self(*args)

        return mindspore.jit(call, jit_level="O0")

    def __call__(self, *args: Any) -> Any:
        # A graph keeps stride and offset of the first view that it was called with, for Tensors
        # that are none, too.
        args = tuple([_to_call_with(arg) for arg in args])
        with CALLS:
            if any(type(arg) is tuple and arg for arg in args):
                return _WithLists.apply(self, *args)
            return self.graph(*args)


def _known(op: str, parameter: Any, tensors: Any, attrs: Any, lists: Any, late: bool) -> Any:
    """Return what the host passes for a parameter, or knows of a Tensor; see generated/."""
    source, index = parameter["source"], parameter["index"]
    if source == "attr":
        spec = schema(op)["attrs"][index]
        value = attrs.get(spec["name"], spec["default"])
        return value * parameter["factor"] if parameter["kind"] == "int" else value
    spec = schema(op)["inputs"][index]
    name = spec["name"]
    if parameter["kind"] != "tensor":
        return (LIST_TENSOR if late else LIST_TUPLE) if name in lists else LIST_ABSENT
    if spec["list"]:
        return mindspore.int64 if name in tensors else None
    return name in tensors


def _depends(op: str, parameter: Any) -> Any:
    """Whether what is passed for a parameter depends on the call, beside which Tensor it is."""
    if parameter["source"] != "input" or parameter["kind"] != "tensor":
        return parameter["source"] is not None
    spec = schema(op)["inputs"][parameter["index"]]
    return spec["optional"] or spec["list"]


def _missing(op: str, parameter: Any, tensors: Any) -> bool:
    """Whether a parameter is a Tensor that is not passed."""
    if parameter["kind"] != "tensor":
        return False
    if parameter["source"] is None:
        return True
    return schema(op)["inputs"][parameter["index"]]["name"] not in tensors


def aclnn_operator(
    op: str, text: str, tensors: Any, attrs: Any, lists: Any, late: bool, bprop: Any
) -> tuple[Any, ...]:
    """The Custom of an aclnn function, and what calls it with an operator's inputs; see `Operator`.

    Args:
        op: Name of the operator.
        text: Its attributes for the native inference.
        tensors: Names of the Tensors that are not absent.
        attrs: Attributes by name.
        lists: Names of its sequence lists that are given.
        late: Whether these are Tensors, whose values are known when the operator runs.
        bprop: Its gradient, in terms of the operator's inputs and outputs.
    """
    _check_mindspore()
    _check_package(op)
    kind, forward, backward = ACLNN[op]
    inputs = _parameters(op, "input")
    # The fields of `kind` are the parameters that depend on the call, in their order.
    known = kind(*(_known(op, p, tensors, attrs, lists, late) for p in inputs if _depends(op, p)))
    missing = [place for place, p in enumerate(inputs) if _missing(op, p, tensors)]
    custom = AclnnCustom(op, text, missing, late, backward(bprop, known))
    return custom, forward(custom, known)
