"""docs/interface.md names every public function and environment variable, and nothing else."""

import inspect
import re

import mindspore_nsa
from mindspore_nsa import integrations, nn, reference, twin

from .conftest import ROOT

PAGE = (ROOT / "docs" / "interface.md").read_text()
SOURCES = ("mindspore_nsa", "cpu", "binding", "infer", "twin", "ascendc", "tools", "setup.py")
# How sources ask for a variable: os.environ in Python, getenv in C++, or a name given to a helper.
READ = re.compile(
    r'(?:environ(?:\.get\(|\[)|getenv\(|Number\(|is_on\(|kVariable = )\s*"([A-Z][A-Z0-9_]+)"',
)


def names(section):
    """Names in the first column of the table below a heading."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    assert rows, section
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_functions_and_classes():
    assert names("mindspore_nsa") == set(mindspore_nsa.__all__)
    assert names("mindspore_nsa.nn") == set(nn.__all__)
    for name in ("mindformers", "mindone"):
        adapter = getattr(integrations, name)
        assert names(f"mindspore_nsa.integrations.{name}") == set(adapter.__all__)
    assert names("mindspore_nsa.reference") == set(reference.__all__)
    assert names("mindspore_nsa.twin") == set(twin.__all__)
    for name in twin.__all__:
        assert inspect.isfunction(getattr(twin, name)), name


def test_packages_are_attributes():
    packages = re.findall(r"^## mindspore_nsa\.(\w+)$", PAGE, re.MULTILINE)
    assert len(packages) == 3
    for name in packages:
        assert mindspore_nsa.__getattr__(name).__name__ == f"mindspore_nsa.{name}"


def test_environment_variables():
    files = [
        path
        for name in SOURCES
        for path in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"))
        if path.suffix in (".py", ".cc", ".h", ".cpp")
    ]
    assert len(files) > 200
    read = {name for path in files for name in READ.findall(path.read_text())}
    # OpenMP reads its own.
    assert names("Environment variables") == read | {"OMP_NUM_THREADS"}
