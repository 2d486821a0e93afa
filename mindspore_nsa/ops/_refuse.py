"""The error of a gradient that does not exist, raised where the gradient is used."""

from functools import lru_cache
from typing import Any

from mindspore import context, ops

from ._constexpr import Constexpr
from ._custom import custom


@lru_cache(maxsize=64)
def _refusal(error: Any, text: str) -> Any:
    if context.get_context("device_target") != "Ascend":
        return custom("NsaRefuseGradient", text, None)

    # The native library's function runs on the CPU alone; MindSpore runs a Python one there, too.
    def refuse(*inputs: Any) -> None:
        raise error(text)

    return ops.Custom(refuse, lambda x: x, lambda x: x, "pyfunc")


class _Refuse(Constexpr):
    """Raises an error; in a graph, gives the operator that raises it when it runs.

    A compiler infers every gradient, also those that nobody asked for, and drops those afterwards.
    MindSpore even builds second derivatives without need after a gradient call that failed.
    """

    def __init__(self, error: Any) -> None:
        super().__init__("NsaRefuse")
        self._error = error

    def __call__(self, text: str) -> Any:
        raise self._error(text)

    def __infer__(self, text: dict[str, Any]) -> dict[Any, Any]:
        return {"dtype": None, "shape": None, "value": _refusal(self._error, text["value"])}


refuse_value = _Refuse(ValueError)
_refuse_second_order = _Refuse(RuntimeError)


def refuse_each(text: str, inputs: Any) -> tuple[Any, ...]:
    """Return the gradients of an operator without any: each raises where it is used."""
    refuse = _refuse_second_order(text)
    return tuple([refuse(x) for x in inputs])
