"""Gradients that do not exist: an error where one is used, and only there."""

from functools import lru_cache

from mindspore import context, ops
from mindspore.ops import signature

from ._bprop import bprop_of
from ._constexpr import Constexpr
from ._custom import (
    CACHE_SIZE,
    custom,
    native_operator,
    planned_target,
    schema,
)


def zero_gradient(x, given):
    """The gradient of an input that has none.

    Where the input is a constant of ours, its gradient goes nowhere: any Tensor of its shape will
    do, and in PyNative mode making one costs as much as a small operator.
    """
    if given:
        return ops.zeros_like(x)
    return x


@lru_cache(maxsize=64)
def _refusal(error, text):
    if context.get_context("device_target") != "Ascend":
        return custom("NsaRefuseGradient", text, None)

    # The native library's function runs on the CPU alone; MindSpore runs a Python one there, too.
    def refuse(*inputs):
        raise error(text)

    return ops.Custom(refuse, lambda x: x, lambda x: x, "pyfunc")


class _Refuse(Constexpr):
    """Raises an error; in a graph, gives the operator that raises it when it runs.

    A compiler infers every gradient, also those that nobody asked for, and drops those afterwards.
    MindSpore even builds second derivatives without need after a gradient call that failed.
    """

    def __init__(self, error):
        super().__init__("NsaRefuse")
        self._error = error

    def __call__(self, text):
        raise self._error(text)

    def __infer__(self, text):
        return {"dtype": None, "shape": None, "value": _refusal(self._error, text["value"])}


_refuse_value = _Refuse(ValueError)
_refuse_second_order = _Refuse(RuntimeError)


def second_order_text(function):
    """The error of differentiating a gradient."""
    return (
        f"{function}: its gradient has no gradient; second derivatives are not implemented, nor is "
        "forward mode (mindspore.jvp), which MindSpore makes of two backward passes"
    )


def refuse_each(text, inputs):
    """What the bprop of an operator without a gradient returns for its inputs."""
    refuse = _refuse_second_order(text)
    return tuple([refuse(x) for x in inputs])


@lru_cache(maxsize=CACHE_SIZE)
def gradient_operator(op, attrs, function):
    """The operator of a gradient, which has no gradient of its own.

    `attrs` is what `encode_attrs` wrote, `function` the public function whose gradient it is.
    """
    text = second_order_text(function)

    def bprop(inputs, out, dout):
        return refuse_each(text, inputs)

    return native_operator(op, attrs, bprop_of(bprop, len(schema(op)["inputs"])))


def _no_gradient_text(op, instead):
    function = schema(op)["function"]
    return f"{function}: it has no gradient, because it reads a cache; train with {instead}"


@lru_cache(maxsize=CACHE_SIZE)
def cache_operator(op, attrs, instead, writes=False):
    """An `Operator` that reads a cache, and so has no gradient.

    `attrs` is what `encode_attrs` wrote, `instead` what to train with. One that `writes` the cache
    must not be dropped, merged or reordered by a compiler.
    """
    text = _no_gradient_text(op, instead)

    def bprop(inputs, out, dout):
        return refuse_each(text, inputs)

    operator = native_operator(op, attrs, bprop_of(bprop, len(schema(op)["inputs"])))
    if writes:
        operator.custom.add_prim_attr("side_effect_mem", True)
    return operator


@lru_cache(maxsize=64)
def written_mark(op, instead, marked):
    """A Custom that does nothing to its inputs, but a graph takes those `marked` for written."""
    text = _no_gradient_text(op, instead)

    def bprop(inputs, out, dout):
        return refuse_each(text, inputs)

    operator = custom("NsaMarkWritten", "", bprop_of(bprop, len(marked)))
    operator.add_prim_attr("side_effect_mem", True)
    rw = signature.sig_rw
    operator.set_signatures(
        [
            signature.make_sig(f"x{i}", rw.RW_WRITE if mark else rw.RW_READ)
            for i, mark in enumerate(marked)
        ]
    )
    return operator


def without_gradient(text):
    """The identity, whose gradient is the error `text` where it is used; for the planned target."""
    return _identity_without_gradient(text, planned_target.get())


@lru_cache(maxsize=64)
def _identity_without_gradient(text, target):
    def bprop(x, out, dout):
        refuse = _refuse_value(text)
        return (refuse(x),)

    if target != "ascend":
        return custom("NsaWithoutGradient", "", bprop)

    # The native library's function runs on the CPU alone.
    def refused(dout):
        refuse = _refuse_value(text)
        return refuse(dout)

    return ops.InsertGradientOf(refused)
