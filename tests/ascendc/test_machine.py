"""The machine that the twin stands for: `twin.machine`, and the environment's variables."""

import ctypes

import numpy as np
import pytest

from mindspore_nsa import _native, twin
from tests.common.children import python

CALL = """
import numpy as np
from mindspore_nsa import _native
x = np.ones((256, 1, 16), np.float16)
inputs = [x, np.ones((16, 1), np.float16), np.array([256])]
attrs = {"compress_block_size": 16, "compress_stride": 16}
_native.run("NsaCompress", inputs, attrs, target="ascend_twin")
"""


def _cores():
    """How many cores the twin gives to a call that has work for more."""
    inputs = [np.ones((256, 1, 16), np.float16), np.ones((16, 1), np.float16), np.array([256])]
    attrs = {"compress_block_size": 16, "compress_stride": 16}
    _native.run("NsaCompress", inputs, attrs, target="ascend_twin")
    launch = (ctypes.c_uint64 * 64)()  # struct TwinLaunch: launches, cores, ...
    ctypes.CDLL(twin.library()).TwinLastLaunch(launch)
    return launch[1]


def test_blocks_within_blocks():
    outside = _cores()
    with twin.machine(vector_cores=7, seed=1):
        assert _cores() == 7
        with twin.machine(vector_cores=np.int64(3), cube_cores=1):
            assert _cores() == 3
        assert _cores() == 7
        with pytest.raises(KeyError), twin.machine(vector_cores=2):
            raise KeyError
        assert _cores() == 7
    assert _cores() == outside != 7


WRONG = [
    ("vector_cores", "7", TypeError, "an int, got '7' (str)"),
    ("vector_cores", 7.5, TypeError, "an int, got 7.5 (float)"),
    ("vector_cores", None, TypeError, "an int, got None (NoneType)"),
    ("vector_cores", True, TypeError, "an int, got True (bool)"),
    ("vector_cores", 0, ValueError, "from 1 to 1024, got 0"),
    ("vector_cores", 2**40, ValueError, f"from 1 to 1024, got {2**40}"),
    ("cube_cores", "x", TypeError, "an int, got 'x' (str)"),
    ("cube_cores", 1025, ValueError, "from 1 to 1024, got 1025"),
    ("seed", "x", TypeError, "an int, got 'x' (str)"),
    ("seed", 1.0, TypeError, "an int, got 1.0 (float)"),
    ("seed", True, TypeError, "an int, got True (bool)"),
    ("seed", -1, ValueError, f"from 0 to {2**64 - 1}, got -1"),
    ("seed", 2**65, ValueError, f"from 0 to {2**64 - 1}, got {2**65}"),
]


@pytest.mark.parametrize("name, value, error, text", WRONG)
def test_wrong_arguments_change_nothing(name, value, error, text):
    with twin.machine(vector_cores=5):
        with pytest.raises(error) as caught, twin.machine(**{"vector_cores": 7, name: value}):
            pass
        assert str(caught.value) == f"machine: {name} must be {text}"
        assert _cores() == 5


@pytest.mark.parametrize("seed", ["abc", "-1", "1.5", " 1", str(2**64)])
def test_wrong_seed_in_the_environment(seed):
    done = python(CALL, ASCENDC_TWIN_SEED=seed)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert f"ASCENDC_TWIN_SEED must be a number from 0 to {2**64 - 1}, got '{seed}'" in last
