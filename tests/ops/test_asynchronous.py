"""PyNative mode as users have it, where MindSpore's threads run operators after Python has gone on.

The tests' own processes wait for every operator (tests/conftest.py). What may go wrong between
threads, or late, runs once more in a process that does not.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = (
    "tests/smoke",  # every operator and layer, forward and backward, on both targets
    "tests/ops/test_threads.py",
    "tests/ops/test_after_an_error.py",
    "tests/nn/test_after_an_error.py::test_a_full_cache",
    # Writes in place, while the layer goes on.
    "tests/nn/test_cache_rows.py::test_selected_rows_are_rows_filled_afresh",
    "tests/nn/test_cache_rows.py::test_a_row_that_is_copied",
    "tests/nn/test_training.py::test_recompute",
    "tests/nn/test_training.py::test_steps_of_training",
)
SOAKED = (
    "tests/smoke",
    *(f"tests/ops/test_{name}.py" for name in ("modes", "threads", "after_an_error")),
    *(f"tests/nn/test_{name}.py" for name in ("after_an_error", "cache_rows", "training")),
)
# Graphs have threads of their own, and the same ones in both.
PYNATIVE = "not graph and not jit"


@pytest.mark.parametrize(
    "tests, least", [(TESTS, 70), pytest.param(SOAKED, 120, marks=pytest.mark.soak)]
)
def test_as_users_have_it(tests, least):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", PYNATIVE]
    done = subprocess.run(
        [*command, *tests],
        cwd=ROOT,
        env={**os.environ, "MS_DEV_LAUNCH_BLOCKING": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "operators of PyNative mode: asynchronous" in done.stdout
    passed = re.search(r"=+ (\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= least, done.stdout[-500:]
