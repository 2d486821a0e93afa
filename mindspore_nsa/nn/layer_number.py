"""The number by which a cache knows the layer whose tokens it holds.

A running number alone would tell layers apart in one process only, while a cache may be saved and
loaded in another: a number says which process it is of, and the rest is compared across processes.
"""

import itertools
import re
import secrets
import weakref
import zlib
from typing import Any, NamedTuple

from ..ops._constexpr import Constexpr
from .config import NSAConfig

# Bits of the parts, as in infer/nsa_cache_step.h; 60 in all, as an operator takes them.
_PROCESS, _CONFIG, _PLACE, _OWN = 18, 16, 11, 15

_process = secrets.randbelow(2**_PROCESS - 1) + 1
_numbers, _names = itertools.count(1), itertools.count()

# These fields and the sizes in a state decide keys, values and the shapes of parameters.
ALIKE = ("hidden_size", "num_heads", "rope_pairs", "qk_norm", "qk_norm_eps", "has_bias")


class LayerParts(NamedTuple):
    """The parts of a number; 0: not known."""

    process: int
    config: int
    place: int
    own: int

    def packed(self) -> Any:
        """The number, an int of 60 bits."""
        number = self.process << _CONFIG | self.config
        return (number << _PLACE | self.place) << _OWN | self.own

    @classmethod
    def of(cls, number: int) -> Any:
        """The parts of a number."""
        own, number = number % 2**_OWN, number >> _OWN
        place, number = number % 2**_PLACE, number >> _PLACE
        return cls((number >> _CONFIG) % 2**_PROCESS, number % 2**_CONFIG, place, own)

    def loaded(self) -> Any:
        """The parts that say something in any process."""
        return self._replace(process=0, own=0)


def _config_checksum(config: NSAConfig, part: str) -> Any:
    found = [getattr(config, name) for name in ALIKE]
    if not config.qk_norm:
        found[ALIKE.index("qk_norm_eps")] = 0
    # Never 0, which means not known.
    return zlib.crc32(repr((found, part)).encode()) % (2**_CONFIG - 1) + 1


def _name(layer: Any) -> Any:
    """The name of a parameter, which changes with the layer's place; None without one."""
    try:
        # In a twentieth of the time of a walk over the layer.
        return layer.query.weight.name
    except AttributeError:
        first = None if layer is None else next(layer.get_parameters(), None)
        return None if first is None else first.name


def _place(layer: Any) -> Any:
    """1 + the last number in the names of the parameters: of `layers.3.attention` 4."""
    local, parameter = next(layer.parameters_and_names())
    if not parameter.name.endswith(local):
        return 0
    numbers = re.findall(r"(?:^|\.)(\d{1,4})(?=\.)", parameter.name[: -len(local)])
    place = int(numbers[-1]) + 1 if numbers else 0
    return place if place < 2**_PLACE else 0


class LayerNumber(Constexpr):
    """The number of a layer at a call.

    Its place follows from names, which a model gives later. The first one stays, because a Cell
    around a layer alone names it anew.

    Args:
        layer (AttentionLayer): The layer.
        config (NSAConfig): What it is made of.
        part (tuple): (rank, workers) of a tensor group.
    """

    def __init__(self, layer: Any, config: NSAConfig, part: Any = (0, 1)) -> None:
        # A compiler takes either of two primitives of one name.
        super().__init__(f"LayerNumber{next(_names)}")
        self._layer = weakref.ref(layer)
        own = next(_numbers) % (2**_OWN - 1) + 1
        self._parts = LayerParts(_process, _config_checksum(config, part), 0, own)
        self._named, self._known = None, self._parts.packed()

    def __call__(self) -> Any:
        """The number, an int."""
        if self._parts.place == 0:
            layer = self._layer()
            name = _name(layer)
            if name != self._named:
                self._parts = self._parts._replace(place=_place(layer))
                self._known, self._named = self._parts.packed(), name
        return self._known

    def __infer__(self) -> dict[Any, Any]:
        return {"dtype": None, "shape": None, "value": self()}

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return the number of the layer's copy, which counts as the layer without places."""
        made = LayerNumber.__new__(LayerNumber)
        Constexpr.__init__(made, f"LayerNumber{next(_names)}")
        layer = self._layer()
        made._layer = weakref.ref(memo.get(id(layer), layer))
        made._parts = self._parts._replace(place=0)
        made._named, made._known = None, made._parts.packed()
        return made


def _differ(ours: Any, its: Any) -> Any:
    return ours != its and 0 not in (ours, its)


def wrong_layer(ours: Any, writer: Any, row: int) -> tuple[Any, ...] | None:
    """(what a cache must be, what it is) where a row has tokens of another layer, or None."""
    if 0 in (ours, writer) or ours == writer:
        return None
    ours, its = LayerParts.of(ours), LayerParts.of(writer)
    if ours.process == its.process != 0 and _differ(ours.own, its.own):
        return (
            "one that no other layer writes to",
            f"the tokens of another layer in row {row}: every layer needs a cache of its own, and "
            "a model that was made again one that AttentionCache.from_dict loads",
        )
    if _differ(ours.config, its.config):
        return (
            f"one of a layer of the same {', '.join(ALIKE)} and part of the heads",
            f"the tokens of another layer in row {row}",
        )
    if _differ(ours.place, its.place):
        return (
            f"one of layer {ours.place - 1} of its model",
            f"the tokens of layer {its.place - 1} in row {row}",
        )
    return None
