"""Native operators as `mindspore.ops.Custom`."""

import ctypes
from contextvars import ContextVar
from functools import cache, lru_cache

import numpy as np
from mindspore import Tensor, ops

from .. import _native

# Lists given as tuples bring a new number of rows now and then; the rest of a program has few sets
# of attributes.
CACHE_SIZE = 1024


@lru_cache(maxsize=1)
def library():
    """Path of the native library, held open: MindSpore opens and closes it around every call."""
    ctypes.CDLL(_native.__file__)
    return _native.__file__


@cache
def schema(op):
    """Inputs, attributes and outputs of a native operator."""
    return _native.schema(op)


# The target of the call that is being planned.
planned_target = ContextVar("planned_target", default="cpu")

_CODES = {"int": ("i", int), "float": ("f", float), "str": ("s", str)}


def encode_attrs(op, attrs, given=()):
    """Attributes as the text that binding/attr_text.h reads.

    The text also says which inputs are given, the required ones and those named in `given`, and
    names the target of the call that is being planned.
    """
    inputs = schema(op)["inputs"]
    unknown = set(given).difference(spec["name"] for spec in inputs)
    if unknown:
        raise ValueError(f"{op} has no input {', '.join(sorted(unknown))}")
    present = sum(
        1 << i for i, spec in enumerate(inputs) if not spec["optional"] or spec["name"] in given
    )
    items = [f"present=i{present}"]
    types = {attr["name"]: attr["type"] for attr in schema(op)["attrs"]}
    for name, value in attrs.items():
        code, convert = _CODES[types[name]]
        value = convert(value)
        items.append(f"{name}={code}{value!r}" if code == "f" else f"{name}={code}{value}")
    if planned_target.get() != "cpu":
        items.append(f"target=s{planned_target.get()}")
    return ";".join(items)


def custom(symbol, text, bprop, multi_output=False):
    """A Custom of the functions that the native library exports under a name; `text` is theirs."""
    custom = ops.Custom(f"{library()}:{symbol}", None, None, "aot", bprop=bprop)
    custom.add_prim_attr("reg_op_name", symbol)
    custom.add_prim_attr("multi_output", multi_output)
    custom.add_prim_attr("nsa_attrs", text)
    return custom


def native_custom(op, attrs, bprop):
    """A Custom of a native operator; `attrs` as `encode_attrs` wrote them."""
    return custom(op, attrs, bprop, len(schema(op)["outputs"]) > 1)


@cache
def absent(dtype="float32"):
    """What stands for an optional input that is not given."""
    return Tensor(np.zeros(1, dtype))


@lru_cache(maxsize=CACHE_SIZE)
def list_tensor(values):
    """A tuple of ints as the int64 Tensor that the native operators take."""
    return Tensor(np.asarray(values, np.int64))
