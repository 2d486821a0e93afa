"""Recent results of the reference, by the content of a call: other instruction sets, modes and
numbers of cores take the same calls again."""

import hashlib
from collections import OrderedDict
from dataclasses import fields, is_dataclass

import numpy as np

# All outputs together; a process that keeps more forgets the least recently used.
MOST_BYTES = 192 << 20


def digest(op, inputs, attrs, dtype):
    """Equal for calls that are equal to the bit, and for no others."""
    found = hashlib.blake2b(repr((op, dtype, sorted(attrs.items()))).encode(), digest_size=20)
    for x in inputs:
        name, array = x if isinstance(x, tuple) else ("", x)
        if array is None:
            found.update(b"absent")
            continue
        array = np.ascontiguousarray(array)
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(memoryview(array).cast("B") if array.size else b"")
    return found.digest()


def _arrays(x):
    """All arrays of outputs, which are lists, tuples and dataclasses of them."""
    if isinstance(x, np.ndarray):
        yield x
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from _arrays(part)
    elif is_dataclass(x):
        for part in fields(x):
            yield from _arrays(getattr(x, part.name))


class Kept:
    """Outputs by (call, arithmetic). They are shared, and so nobody may write to them."""

    def __init__(self, most_bytes=MOST_BYTES):
        self._most, self._bytes = most_bytes, 0
        self._found = OrderedDict()

    def get(self, key, compute):
        """Return what `compute` gave for the key, or gives now."""
        if key in self._found:
            self._found.move_to_end(key)
            return self._found[key][0]
        outputs = compute()
        arrays = list(_arrays(outputs))
        for array in arrays:
            array.flags.writeable = False
        size = sum(array.nbytes for array in arrays)
        self._found[key] = outputs, size
        self._bytes += size
        while self._bytes > self._most and len(self._found) > 1:
            _, (_, size) = self._found.popitem(last=False)
            self._bytes -= size
        return outputs
