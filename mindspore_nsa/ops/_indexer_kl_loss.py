"""What the KL losses of an indexer have in common."""

from ._plan import NativeCall, shown

ALL_TOKENS = 2**63 - 1


def checked_call(op, function, given):
    """A checked call of a native operator and its outputs; errors name the public function."""
    for name in ("pre_tokens", "next_tokens"):
        if type(given[name]) is not int:
            raise TypeError(f"{function}: {name} must be an int, got {shown(given[name])}")
        if given[name] != ALL_TOKENS:
            raise ValueError(f"{function}: {name} must be 2**63 - 1, got {given[name]}")
    call = NativeCall(op, given, function=function)
    return call, call.infer()
