"""Gradients that do not exist: an error where one is used, and only there."""

from functools import lru_cache
from typing import Any

from mindspore import ops
from mindspore.ops import signature

from ._custom import CACHE_SIZE, custom, native_operator, planned_target, schema
from ._refuse import refuse_value
from .generated import REFUSALS


def refusing_bprop(op: str, text: str) -> Any:
    """The bprop of an operator whose gradients raise the error `text` where one is used."""
    return REFUSALS[len(schema(op)["inputs"])](text)


def second_order_text(function: str) -> str:
    """The error of differentiating a gradient."""
    return (
        f"{function}: its gradient has no gradient; second derivatives are not implemented, nor is "
        "forward mode (mindspore.jvp), which MindSpore makes of two backward passes"
    )


@lru_cache(maxsize=CACHE_SIZE)
def gradient_operator(op: str, attrs: Any, function: str) -> Any:
    """The operator of a gradient, which has no gradient of its own.

    `attrs` is what `encode_attrs` wrote, `function` the public function whose gradient it is.
    """
    text = second_order_text(function)
    return native_operator(op, attrs, refusing_bprop(op, text))


def _no_gradient_text(op: str, instead: str) -> str:
    function = schema(op)["function"]
    return f"{function}: it has no gradient, because it reads a cache; train with {instead}"


@lru_cache(maxsize=CACHE_SIZE)
def cache_operator(op: str, attrs: Any, instead: str, writes: bool = False) -> Any:
    """An `Operator` that reads a cache, and so has no gradient.

    `attrs` is what `encode_attrs` wrote, `instead` what to train with. One that `writes` the cache
    must not be dropped, merged or reordered by a compiler.
    """
    operator = native_operator(op, attrs, refusing_bprop(op, _no_gradient_text(op, instead)))
    if writes:
        operator.custom.add_prim_attr("side_effect_mem", True)
    return operator


def written_mark(op: str, instead: str, marked: Any) -> Any:
    """A Custom that does nothing to its inputs, but a graph takes those `marked` for written."""
    return mark_without_gradient(_no_gradient_text(op, instead), marked)


@lru_cache(maxsize=64)
def mark_without_gradient(text: str, marked: Any) -> Any:
    """Such a Custom, whose gradient is the error `text`."""
    operator = custom("NsaMarkWritten", "", REFUSALS[len(marked)](text))
    operator.add_prim_attr("side_effect_mem", True)
    rw = signature.sig_rw
    operator.set_signatures(
        [
            signature.make_sig(f"x{i}", rw.RW_WRITE if mark else rw.RW_READ)
            for i, mark in enumerate(marked)
        ]
    )
    return operator


def without_gradient(text: str) -> Any:
    """The identity, whose gradient is the error `text` where it is used; for the planned target."""
    return _identity_without_gradient(text, planned_target.get())


@lru_cache(maxsize=64)
def _identity_without_gradient(text: str, target: str) -> Any:
    def bprop(x: Any, out: Any, dout: Any) -> tuple[Any, ...]:
        refuse = refuse_value(text)
        return (refuse(x),)

    if target != "ascend":
        return custom("NsaWithoutGradient", "", bprop)

    # The native library's function runs on the CPU alone.
    def refused(dout: Any) -> Any:
        refuse = refuse_value(text)
        return refuse(dout)

    return ops.InsertGradientOf(refused)
