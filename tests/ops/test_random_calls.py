"""Random native cases through the public functions, half of them in each of MindSpore's modes."""

import pytest

from tests.common.cases import compare, make_case

from .calls import PublicCall

# The seeds of the tests; longer runs start after them.
TESTED = 120


@pytest.mark.parametrize("seed", range(TESTED))
def test_random_call(seed):
    # Both modes see lists as constants and as Tensors.
    call = PublicCall(make_case(seed), lists_as_tensors=seed % 4 >= 2)
    compare(*call.run("graph" if seed % 2 else "pynative"))
