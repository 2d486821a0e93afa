"""Native operators as `mindspore.ops.Custom`."""

import ctypes
import json
import os
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any, NamedTuple

import mindspore
import numpy as np
from mindspore import Tensor, ops

from .. import _native
from ._constexpr import Constexpr

# Lists given as tuples bring a new number of rows now and then; the rest of a program has few sets
# of attributes.
CACHE_SIZE = 1024


@lru_cache(maxsize=1)
def library() -> Any:
    """Path of the native library, held open: MindSpore opens and closes it around every call."""
    ctypes.CDLL(_native.__file__)
    return _native.__file__


class _Calls:
    """A lock around a call of a Custom, which the calls of other threads wait for.

    Called by two threads at once, MindSpore may run a Custom with the Tensors of the other call, or
    report that its kernel is not there yet. Graphs it compiles and runs for one thread at a time.
    """

    def __init__(self) -> None:
        self._renew()
        # The thread that had the lock is not there in a child process.
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: Any) -> None:
        self._lock.release()


CALLS = _Calls()


class _Custom(ops.Custom):
    """A Custom that several threads may call."""

    def __call__(self, *args: Any) -> Any:
        with CALLS:
            return super().__call__(*args)


@cache
def schema(op: str) -> Any:
    """Inputs, attributes and outputs of a native operator."""
    return _native.schema(op)


# The target of the call that is being planned, and whether a graph is compiled.
planned_target = ContextVar("planned_target", default="cpu")
planned_for_graph = ContextVar("planned_for_graph", default=False)
# Whether the lists of that call are Tensors for an aclnn function that takes them from the host.
planned_tensor_lists = ContextVar("planned_tensor_lists", default=False)

# str() of a member of an Enum of str would be its name, not its value.
_CODES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "int": ("i", int),
    "float": ("f", float),
    "str": ("s", str.__str__),
}


@cache
def device_lists(op: str) -> Any:
    """Names of the lists that are Tensors for the aclnn function, whose values it alone reads."""
    if op not in _native.ascend_operators():
        return frozenset()
    return frozenset(
        schema(op)["inputs"][parameter["index"]]["name"]
        for parameter in _native.ascend_signature(op)
        if parameter["source"] == "input" and parameter["kind"] == "tensor"
    ).intersection(spec["name"] for spec in schema(op)["inputs"] if spec["list"])


def encode_attrs(op: str, attrs: Any, given: Iterable[str] = ()) -> Any:
    """Attributes as the text that binding/attr_text.h reads.

    The text also says which inputs are given, the required ones and those named in `given`, and
    names the target of the call that is being planned, and whether a graph makes it, which says
    what an error's text has to add, and whether inference on target "ascend" sees lists among the
    Tensors. There another line follows, which is not for the native library: what the host knows.
    """
    inputs = schema(op)["inputs"]
    unknown = set(given).difference(spec["name"] for spec in inputs)
    if unknown:
        raise ValueError(f"{op} has no input {', '.join(sorted(unknown))}")
    present = [not spec["optional"] or spec["name"] in given for spec in inputs]
    items = [f"present=i{sum(1 << i for i, real in enumerate(present) if real)}"]
    types = {attr["name"]: attr["type"] for attr in schema(op)["attrs"]}
    values = {}
    for name, value in attrs.items():
        code, convert = _CODES[types[name]]
        values[name] = value = convert(value)
        items.append(f"{name}={code}{value!r}" if code == "f" else f"{name}={code}{value}")
    target = planned_target.get()
    if target != "cpu":
        items.append(f"target=s{target}")
    if planned_for_graph.get():
        items.append("graph=i1")
    if target != "ascend":
        return ";".join(items)
    if planned_tensor_lists.get():
        items.append("lists=i1")
    text = ";".join(items)
    real = [spec for spec, is_real in zip(inputs, present) if is_real]
    on_device = device_lists(op)
    tensors = [spec["name"] for spec in real if not spec["list"] or spec["name"] in on_device]
    on_host = [spec["name"] for spec in real if spec["name"] not in tensors]
    return f"{text}\n{json.dumps([tensors, values, on_host, planned_tensor_lists.get()])}"


def for_device(text: str) -> bool:
    """Whether attributes that `encode_attrs` wrote are those of target "ascend"."""
    return "\n" in text


def custom(symbol: str, text: str, bprop: Any, multi_output: bool = False) -> Any:
    """A Custom of the functions that the native library exports under a name; `text` is theirs."""
    custom = _Custom(f"{library()}:{symbol}", None, None, "aot", bprop=bprop)
    custom.add_prim_attr("reg_op_name", symbol)
    custom.add_prim_attr("multi_output", multi_output)
    custom.add_prim_attr("nsa_attrs", text)
    return custom


def native_custom(op: str, attrs: Any, bprop: Any) -> Any:
    """A Custom of a native operator; `attrs` as `encode_attrs` wrote them."""
    return custom(op, attrs, bprop, len(schema(op)["outputs"]) > 1)


class _WithoutKernel(Constexpr):
    """A gradient without an Ascend kernel, whose operator has one: an error where it is called."""

    def __init__(self, op: str, target: str) -> None:
        super().__init__(f"{op}WithoutKernel")
        self._of = op, target

    def __call__(self, *inputs: Any) -> None:
        _native.ascend_signature(*self._of)

    def __infer__(self, *inputs: Any) -> None:
        _native.ascend_signature(*self._of)


class Operator(NamedTuple):
    """A native operator on one target.

    Attributes:
        custom: The Custom.
        call: A function of the operator's inputs; the Custom itself where it takes these.
    """

    custom: Any
    call: Any


def native_operator(op: str, text: str, bprop: Any) -> Any:
    """The `Operator` for the target that `encode_attrs` wrote into its text."""
    attrs, _, host = text.partition("\n")
    target = planned_target.get()
    if target != "cpu" and op not in _native.ascend_operators():
        missing = _WithoutKernel(op, target)
        return Operator(missing, missing)
    if not host:
        made = native_custom(op, attrs, bprop)
        return Operator(made, made)
    from ._ascend import aclnn_operator

    tensors, given, lists, late = json.loads(host)
    return Operator(*aclnn_operator(op, attrs, tensors, given, lists, late, bprop))


def constant(values: Any) -> Tensor:
    """A Tensor of these values that may be kept.

    One that is made under `mindspore.DeviceCtx("meta")`, where a model is built without memory, has
    no values, and would outlive the block in whatever keeps it.
    """
    if mindspore.context.get_context("device_target") != "meta":
        made = Tensor(values)
    else:
        with mindspore.DeviceCtx("CPU"):
            made = Tensor(values)
    made.nsa_constant = True
    return made


# Imported where it is used: amp level O1 copies a function that a Cell calls, with the imports of
# its module, but without the constants that the module makes.
ZERO = constant(np.zeros(1, np.int64))


def on_device(tensor: Tensor) -> Tensor:
    """A constant in the memory of device Ascend; another Tensor as it is.

    A graph that is called with a Tensor of the host copies it for every call, and waits.
    """
    if tensor.device != "CPU" or not getattr(tensor, "nsa_constant", False):
        return tensor
    copy = getattr(tensor, "nsa_on_device", None)
    if copy is None:
        copy = tensor.nsa_on_device = tensor.move_to("Ascend", blocking=True)
    return copy


@cache
def absent(dtype: str = "float32") -> Any:
    """Return what stands for an optional input that is not given."""
    return constant(np.zeros(1, dtype))


@lru_cache(maxsize=CACHE_SIZE)
def list_tensor(values: Any) -> Any:
    """A tuple of ints as the int64 Tensor that the native operators take."""
    return constant(np.asarray(values, np.int64))
