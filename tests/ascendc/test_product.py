"""ASCENDC_TWIN_SOC: the product that the twin stands for."""

import os
import subprocess
import sys

import pytest

from .programs import PACKAGE

PROGRAM = """
import ctypes
import numpy as np
from mindspore_nsa import _native, twin
library = ctypes.CDLL(twin.library())
library.aclrtGetSocName.restype = library.aclGetRecentErrMsg.restype = ctypes.c_char_p
print((library.aclrtGetSocName() or library.aclGetRecentErrMsg()).decode())
inputs = [np.ones((800, 4, 32), np.float16), np.ones((32, 4), np.float16), np.array([800])]
window = {"compress_block_size": 32, "compress_stride": 16, "num_windows": 49}
with twin.clock() as timed:
    try:
        _native.run("NsaCompress", inputs, window, target="ascend_twin")
        print(timed()[0]["blocks"])
    except RuntimeError as error:
        print(error)
"""


def run(soc):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": PACKAGE, "ASCENDC_TWIN_SOC": soc},
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.parametrize(
    "soc, cores",
    [("", 48), ("Ascend910B3", 40), ("Ascend910_9392", 48), ("Ascend910_9362", 40)],
)
def test_a_kernel_runs_on_its_cores(soc, cores):
    printed, error = run(soc)
    assert printed == [soc or "Ascend910B2", str(cores)], error


def test_another_name_is_an_error():
    printed, error = run("Ascend910C")
    assert len(printed) == 2, error
    for line in printed:
        assert "ASCENDC_TWIN_SOC must be one of Ascend910B1, " in line
        assert "got 'Ascend910C'" in line
