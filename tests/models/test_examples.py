"""The examples that load a checkpoint of transformers, as a user runs them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import mindspore_nsa
from tests.integrations.environments import ROOT, python_of

EXAMPLES = sorted((ROOT / "examples").glob("load_*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_loads_equals_and_trains(path, tmp_path):
    paths = str(Path(mindspore_nsa.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [str(python_of("transformers-5.24.0")), str(path)], cwd=tmp_path, env=env,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert float(re.search(r"largest difference (\S+)", done.stdout)[1]) < 1e-5
    losses = [float(loss) for loss in re.findall(r"step \d+: loss (\S+)", done.stdout)]
    assert len(losses) == 10 and losses[-1] < 0.8 * losses[0], losses
