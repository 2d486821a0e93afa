"""The examples in the documentation of the Cells, and that these are imported lazily."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mindspore import nn

import mindspore_nsa
from tests.ops.test_docstrings import run_examples

EXPORTED = mindspore_nsa.nn.__all__
CLASSES = [name for name in EXPORTED if inspect.isclass(getattr(mindspore_nsa.nn, name))]
CELLS = [name for name in CLASSES if issubclass(getattr(mindspore_nsa.nn, name), nn.Cell)]


@pytest.mark.parametrize("name", EXPORTED)
def test_example(name):
    run_examples(name, getattr(mindspore_nsa.nn, name).__doc__)


@pytest.mark.parametrize("name", CELLS)
def test_inputs_and_arguments_are_described(name):
    cell = getattr(mindspore_nsa.nn, name)
    for function, form in ((cell.__init__, r"\n        {} \("), (cell.construct, r"\*\*{}\*\*")):
        for parameter in list(inspect.signature(function).parameters)[1:]:
            assert re.search(form.format(parameter), cell.__doc__), parameter


def test_every_field_is_described():
    config = mindspore_nsa.nn.NSAConfig
    for parameter in inspect.signature(config).parameters.values():
        entry = re.search(rf"\n        {parameter.name} \((.*?)\n        \w", config.__doc__, re.S)
        entry = entry or re.search(rf"\n        {parameter.name} \((.*)", config.__doc__, re.S)
        if parameter.default is not inspect.Parameter.empty:
            written = re.search(r"Default:\s+``(.*?)``", entry[1])[1]
            shown = f'"{parameter.default}"'
            assert written == (shown if isinstance(parameter.default, str) else shown[1:-1])


def test_the_package_imports_no_mindspore():
    code = (
        "import sys, mindspore_nsa\n"
        "assert 'mindspore' not in sys.modules\n"
        "assert 'nn' in dir(mindspore_nsa)\n"
        "print(mindspore_nsa.nn.NSAConfig(8, 1, 1, 8))\n"
        "assert 'mindspore' in sys.modules\n"
    )
    folder = Path(mindspore_nsa.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder,
        env={"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("NSAConfig(hidden_size=8, num_heads=1,")
