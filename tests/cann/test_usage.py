"""Programs use the operators on MindSpore's device Ascend in other ways than by calling them."""

import numpy as np
import pytest

import mindspore_nsa

from .judge import collected
from .usage import USES


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return collected("usage", USES, tmp_path_factory.mktemp("usage"))


@pytest.mark.parametrize("name", USES)
def test_as_target_ascend_twin(found, name):
    """A CPU gives the same bits with the same kernels."""
    with mindspore_nsa.target("ascend_twin"):
        expected = USES[name]()
    ours = found[name]
    assert len(ours) == len(expected) > 1, ours
    for a, b in zip(ours, expected):
        np.testing.assert_array_equal(a, b)
