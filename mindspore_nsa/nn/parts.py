"""Whether a Cell inside a layer is the layer's own, so that an operator may stand for a call of it.

An operator that computes several parts at once reads their parameters and calls none of them. It
may do so only where a call of each would do nothing else: a part may have been exchanged, have
hooks, or be marked for recomputation.
"""

import copy
import inspect
import weakref
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any

from mindspore import nn

from ..ops._plan import Planner

# With one of these a Cell runs more than its construct. MindSpore 2.10 alone has "_lazy" names.
_HOOKS = ("_forward_pre_hook", "_forward_hook", "_backward_pre_hook", "_backward_hook")
_OTHERS = ("_recompute_cell", "_shard_fn", "_saved_tensors_pack_hook")
_attached = itemgetter(
    *(name for name in vars(nn.Cell()) if name.removeprefix("_lazy") in _HOOKS or name in _OTHERS)
)


class Asked:
    """A property that Python evaluates, also where MindSpore compiles a graph.

    For a `property` the compiler takes in the source instead, which cannot ask for classes there.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self._function(instance)


class LayerPart:
    """A part of a layer that works with the layer's Cells.

    The Cells stay the layer's own: checkpoints have their names there, and tools exchange them
    there. A graph compiles the methods of a part like those of the layer. MindSpore's amp level O1
    writes anew what `construct` calls of the layer, and loses the names of modules in Cells there,
    so Cells are called in parts.

    Args:
        layer (AttentionLayer): The layer.
    """

    def __init__(self, layer: Any) -> None:
        # A layer that nobody has any more is freed at once, without a search for cycles.
        self._layer = weakref.ref(layer)

    @Asked
    def layer(self) -> Any:
        """The layer."""
        return self._layer()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return the part of the layer's copy."""
        made, layer = copy.copy(self), self._layer()
        made._layer = weakref.ref(memo.get(id(layer), layer))
        return made


def plain(cell: nn.Cell) -> bool:
    """Whether a call of a Cell runs the construct of its class and nothing else."""
    state = vars(cell)
    try:
        attached = any(_attached(state))
    except KeyError:  # one of them is a Cell, as for recomputation, which stands elsewhere
        return False
    return not attached and "construct" not in state and "bprop" not in state


@lru_cache(maxsize=64)
def _methods(kind: Any) -> frozenset[Any]:
    return frozenset(n for n, v in vars(kind).items() if callable(v) and not n.startswith("__"))


def own_methods(part: Any) -> bool:
    """Whether an object has the methods of its class, and no others in their place."""
    kind: Any = type(part)
    return _methods(kind).isdisjoint(vars(part))


def untouched(cell: nn.Cell, kind: Any) -> Any:
    """Whether this is a plain Cell of just this class, with the methods of this."""
    return type(cell) is kind and plain(cell) and own_methods(cell)


@lru_cache(maxsize=256)
def _takes_dtype(function: Callable[..., Any], tensors: Any) -> bool:
    rest = list(inspect.signature(function).parameters.values())[tensors:]
    needed = [p for p in rest if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return bool(needed) or any(p.name == "dtype" for p in rest[:1])


def takes_dtype(cell: nn.Cell, tensors: Any) -> Any:
    """Whether the construct of a Cell takes a dtype after so many Tensors."""
    construct = cell.construct
    function = getattr(construct, "__func__", None)
    if function is None:
        return _takes_dtype(construct, tensors)
    return _takes_dtype(function, tensors + 1)


def refusal(name: str, part: str, cell: nn.Cell, needed: Any) -> str:
    """The error of a part in whose place something else would be computed."""
    got = type(cell).__name__
    if isinstance(cell, nn.Cell) and not plain(cell):
        got += " with hooks, recomputation or a construct of its own"
    return f"{name}: {part} must be the layer's own {needed.__name__}, got {got}"


def _plan_refusal(text: str) -> bool:
    if text:
        raise ValueError(text)
    return True


def raise_refusal(text: str) -> Any:
    """Raise the error that a text is, unless that is empty."""
    return _plan_raise_refusal(text)


_plan_raise_refusal = Planner(_plan_refusal, raise_refusal)
