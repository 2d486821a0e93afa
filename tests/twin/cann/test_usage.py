"""What programs do with the operators on MindSpore's device Ascend, beside calling them."""

import pickle

import numpy as np
import pytest

import mindspore_nsa

from .judge import run
from .usage import USES


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of them gave there, all in one process."""
    folder = tmp_path_factory.mktemp("usage")
    file = folder / "found"
    done = run("-m", "tests.twin.cann.usage", file, *USES, folder=folder)
    ended = done.stdout.split()
    assert done.returncode == 0, f"after {ended[-1:]}: {done.stderr[-4000:]}"
    return pickle.loads(file.read_bytes())


def same(ours, expected):
    assert len(ours) == len(expected), ours
    for a, b in zip(ours, expected):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", USES)
def test_as_target_ascend_twin(found, name):
    """The same bits as from the same kernels on a CPU."""
    with mindspore_nsa.target("ascend_twin"):
        expected = USES[name]()
    assert len(expected) > 1
    same(found[name], expected)
