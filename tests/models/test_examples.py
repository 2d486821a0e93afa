"""The examples that load a checkpoint of transformers, as a user runs them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

import mindspore_nsa
from mindspore_nsa.models import _cases
from tests.integrations.environments import ROOT, python_of

EXAMPLES = sorted((ROOT / "examples").glob("load_*.py"))
# Importing the three frameworks takes longer than an example, so one process runs all.
PROGRAM = """
import pathlib, runpy, sys, traceback
for path in sys.argv[1:]:
    print("example", pathlib.Path(path).stem, flush=True)
    try:
        runpy.run_path(path, run_name="__main__")
        print("done", flush=True)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Text that every example printed, by name."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = str(Path(mindspore_nsa.__file__).parents[1])
    done = subprocess.run(
        [str(python_of("transformers-5.24.0")), "-c", PROGRAM, *map(str, EXAMPLES)], env=env,
        cwd=tmp_path_factory.mktemp("examples"), capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    parts = re.split(r"^example (\w+)\n", done.stdout, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_architecture_has_one():
    assert len(EXAMPLES) == len(_cases.ARCHITECTURES)
    layers = {re.search(r"import (\w+Attention)", path.read_text())[1] for path in EXAMPLES}
    assert len(layers) == len(EXAMPLES)


@pytest.mark.parametrize("name", [path.stem for path in EXAMPLES])
def test_loads_equals_and_trains(name, printed):
    text = printed[name]
    assert text.endswith("done\n"), text[-4000:]
    assert float(re.search(r"largest difference (\S+)", text)[1]) < 1e-5
    losses = [float(loss) for loss in re.findall(r"step \d+: loss (\S+)", text)]
    assert len(losses) == 10 and losses[-1] < 0.8 * losses[0], losses
