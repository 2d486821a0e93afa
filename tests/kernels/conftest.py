"""Fixtures of the tests of the kernels."""

from pathlib import Path

import pytest

from mindspore_nsa import _native

FOLDER = Path(__file__).parent


@pytest.fixture(params=_native.available_isas())
def isa(request):
    """Every instruction set of this machine, one after the other."""
    before = _native.isa()
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa(before)


def _call(item):
    """A test with its parameters, but for the instruction set."""
    given = item.callspec.params
    return item.nodeid.split("[")[0], *(id(given[name]) for name in given if name != "isa")


def pytest_collection_modifyitems(items):
    """A call on all instruction sets before the next call: its reference is kept for so long."""
    places = [
        place
        for place, item in enumerate(items)
        if item.path.parent == FOLDER and "isa" in item.fixturenames
    ]
    mine = [items[place] for place in places]
    first = {}
    for place, item in enumerate(mine):
        first.setdefault(_call(item), place)
    for place, item in zip(places, sorted(mine, key=lambda item: first[_call(item)])):
        items[place] = item
