"""The KL losses of an indexer share these checks."""

from typing import Any

from ._plan import NativeCall, shown

ALL_TOKENS = 2**63 - 1


def checked_call(op: str, function: str, given: dict[str, Any]) -> tuple[Any, ...]:
    """A checked call of a native operator and its outputs; errors name the public function."""
    for name in ("pre_tokens", "next_tokens"):
        if type(given[name]) is not int:
            raise TypeError(f"{function}: {name} must be an int, got {shown(given[name])}")
        if given[name] != ALL_TOKENS:
            raise ValueError(f"{function}: {name} must be 2**63 - 1, got {given[name]}")
    call = NativeCall(op, given, function=function)
    return call, call.infer()
