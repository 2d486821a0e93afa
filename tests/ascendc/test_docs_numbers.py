"""Numbers of configurations, kernels and compiler runs in the pages are those of the code."""

import importlib
import re
from pathlib import Path

from mindspore_nsa.ops import _ascend

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/ascend.md").read_text()
WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen".split()
)
# Operators that share the configurations of one file.
TOGETHER = {"nsa_compress_grad": "nsa_compress"}


def operators():
    """Folders with a kernel, which are named after it."""
    return sorted(path.parent.name for path in (ROOT / "ascendc").glob("*/op_kernel"))


def configurations(kernel):
    """How many random calls of a kernel `make test` makes."""
    module = importlib.import_module(f"tests.ascendc.test_{TOGETHER.get(kernel, kernel)}")
    found = module.CONFIGURATIONS
    return found if isinstance(found, int) else len(found)


def test_configurations():
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|$", PAGE, re.MULTILINE)
    assert {name: int(count) for name, count in rows} == {
        name: configurations(name) for name in operators()
    }


def test_kernels():
    assert f"run all {WORDS[len(operators())]} kernels on the twin" in PAGE


def test_compiler_runs():
    page = (ROOT / "docs/ascend_machine.md").read_text()
    runs = 0
    for name in operators():
        op = "".join(part.capitalize() for part in name.split("_"))
        runs += len(_ascend._parameters(op, "output")[0]["dtypes"])
    assert f"product takes {runs} runs of CANN's compiler" in page
