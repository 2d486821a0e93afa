"""What the tests of the kernels share."""

import pytest

from mindspore_nsa import _native


@pytest.fixture(params=_native.available_isas())
def isa(request):
    """Every instruction set of this machine, one after the other."""
    before = _native.isa()
    _native.set_isa(request.param)
    yield request.param
    _native.set_isa(before)
