"""Gradients that do not exist: bprops that raise where one is used.

REFUSALS has one for each number of inputs, because MindSpore counts the parameters of a bprop.

Written by tools/generate_calls.py: change it there, then run `make generate`.
"""

# fmt: off
from typing import Any

from .._refuse import refuse_each


def _refusal_of_1(text: str) -> Any:
    def bprop(x0: Any, out: Any, dout: Any) -> Any:
        return refuse_each(text, (x0,))

    return bprop


def _refusal_of_2(text: str) -> Any:
    def bprop(x0: Any, x1: Any, out: Any, dout: Any) -> Any:
        return refuse_each(text, (x0, x1))

    return bprop


def _refusal_of_3(text: str) -> Any:
    def bprop(x0: Any, x1: Any, x2: Any, out: Any, dout: Any) -> Any:
        return refuse_each(text, (x0, x1, x2))

    return bprop


def _refusal_of_4(text: str) -> Any:
    def bprop(x0: Any, x1: Any, x2: Any, x3: Any, out: Any, dout: Any) -> Any:
        return refuse_each(text, (x0, x1, x2, x3))

    return bprop


def _refusal_of_5(text: str) -> Any:
    def bprop(x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, out: Any, dout: Any) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4))

    return bprop


def _refusal_of_6(text: str) -> Any:
    def bprop(x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, out: Any, dout: Any) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5))

    return bprop


def _refusal_of_7(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5, x6))

    return bprop


def _refusal_of_8(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5, x6, x7))

    return bprop


def _refusal_of_9(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, out: Any,
        dout: Any,
    ) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5, x6, x7, x8))

    return bprop


def _refusal_of_10(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, x9: Any,
        out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5, x6, x7, x8, x9))

    return bprop


def _refusal_of_11(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, x9: Any,
        x10: Any, out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10))

    return bprop


def _refusal_of_12(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, x9: Any,
        x10: Any, x11: Any, out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11))

    return bprop


def _refusal_of_13(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, x9: Any,
        x10: Any, x11: Any, x12: Any, out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12))

    return bprop


def _refusal_of_14(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, x9: Any,
        x10: Any, x11: Any, x12: Any, x13: Any, out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13))

    return bprop


def _refusal_of_15(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, x9: Any,
        x10: Any, x11: Any, x12: Any, x13: Any, x14: Any, out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14))

    return bprop


def _refusal_of_16(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, x9: Any,
        x10: Any, x11: Any, x12: Any, x13: Any, x14: Any, x15: Any, out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (
            x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15,
        ))

    return bprop


def _refusal_of_17(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, x9: Any,
        x10: Any, x11: Any, x12: Any, x13: Any, x14: Any, x15: Any, x16: Any, out: Any, dout: Any,
    ) -> Any:
        return refuse_each(text, (
            x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16,
        ))

    return bprop


def _refusal_of_18(text: str) -> Any:
    def bprop(
        x0: Any, x1: Any, x2: Any, x3: Any, x4: Any, x5: Any, x6: Any, x7: Any, x8: Any, x9: Any,
        x10: Any, x11: Any, x12: Any, x13: Any, x14: Any, x15: Any, x16: Any, x17: Any, out: Any,
        dout: Any,
    ) -> Any:
        return refuse_each(text, (
            x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17,
        ))

    return bprop


REFUSALS: dict[int, Any] = {
    1: _refusal_of_1, 2: _refusal_of_2, 3: _refusal_of_3, 4: _refusal_of_4, 5: _refusal_of_5,
    6: _refusal_of_6, 7: _refusal_of_7, 8: _refusal_of_8, 9: _refusal_of_9, 10: _refusal_of_10,
    11: _refusal_of_11, 12: _refusal_of_12, 13: _refusal_of_13, 14: _refusal_of_14,
    15: _refusal_of_15, 16: _refusal_of_16, 17: _refusal_of_17, 18: _refusal_of_18,
}
