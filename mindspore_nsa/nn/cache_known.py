"""A cache's state on a device as the host knows it: reading it waits for all that runs there.

The host makes every state, and the calls of a layer raise lengths by numbers that it knows. Others
may write without a trace, such as by mindspore.ops.assign or in a graph of their own: it reads a
state at each call once somebody else has got its Tensor.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from mindspore import Tensor

from ..ops._by_device import on_ascend
from ..ops._in_place import writes_of

# The name under which a state's Tensor carries (its version, its values); others have nothing.
_NAME = "nsa_known_state"
_calling = ContextVar("calling_a_layer", default=False)
_others_write = False


def graph_compiled() -> None:
    """Take notice of a graph that writes to caches, unless a layer's own call compiles it."""
    global _others_write
    if not _calling.get():
        _others_write = True


def _version(state: Tensor, writes: int = 0) -> Any:
    """A mark that writes in PyNative mode change, apart from mindspore.ops.assign.

    `writes`: how many of the last ones by operators it leaves out.
    """
    # Writes that wait to be dispatched raise it late; the device's name waits for them.
    return state.device, state._version, state.data_ptr(), writes_of(state) - writes


def new_state(state: Tensor, values: Any) -> Tensor:
    """A Tensor of states [B, columns] that nobody else has got; the host knows its values."""
    if on_ascend():
        setattr(state, _NAME, (_version(state), np.array(values, np.int64)))
    return state


def remember(state: Tensor, values: Any) -> None:
    """The host knows the values of a state from now on, unless somebody else has got it."""
    if hasattr(state, _NAME):
        new_state(state, values)


def known(state: Tensor, writes: int = 0) -> Any:
    """The values of a state, int64 [B, columns], or None where the device has to be asked.

    `writes`: the values before so many writes of operators, the last ones.
    """
    version, values = getattr(state, _NAME, (None, None))
    return None if _others_write or version != _version(state, writes) else values


def forget(state: Tensor) -> None:
    """The host does not know any more what the states are."""
    if hasattr(state, _NAME):
        setattr(state, _NAME, (None, None))


def tensors_of(cache: tuple[Any, ...] | list[Any]) -> tuple[Any, ...]:
    """The members of a tuple or list, of which a cache takes no notice."""
    return tuple.__getitem__(cache, slice(None)) if isinstance(cache, tuple) else tuple(cache)


def taken(state: Tensor) -> None:
    """Take notice of somebody who gets the Tensor of a state, unless a layer's own call does.

    Whoever holds it may make other names of its memory, and write at any time.
    """
    if not _calling.get() and hasattr(state, _NAME):
        delattr(state, _NAME)


@contextmanager
def own_call() -> Iterator[None]:
    """While a layer is called, whose graph writes what the host knows."""
    token = _calling.set(True)
    try:
        yield
    finally:
        _calling.reset(token)
