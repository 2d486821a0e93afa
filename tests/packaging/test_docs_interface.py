"""docs/interface.md names every public function and environment variable, and nothing else."""

import inspect
import os
import re
import subprocess
import sys

import mindspore_nsa
from mindspore_nsa import _ascend_twin, _config, integrations, models, nn, reference, testing, twin

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
    assert names("mindspore_nsa.models") == set(models.__all__)
    assert names("mindspore_nsa.nn") == set(nn.__all__)
    for name in ("mindformers", "mindone"):
        adapter = getattr(integrations, name)
        assert names(f"mindspore_nsa.integrations.{name}") == set(adapter.__all__)
    assert names("mindspore_nsa.reference") == set(reference.__all__)
    assert names("mindspore_nsa.testing") == set(testing.__all__)
    assert names("mindspore_nsa.twin") == set(twin.__all__)
    for name in twin.__all__:
        assert inspect.isfunction(getattr(twin, name)), name


def test_packages_are_attributes():
    packages = re.findall(r"^## mindspore_nsa\.(\w+)$", PAGE, re.MULTILINE)
    assert len(packages) == 5
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
    # A name outside of these is a warning.
    known = {f"ASCENDC_TWIN_{name}" for name in _ascend_twin.package().VARIABLES}
    prefixes = ("MINDSPORE_NSA_", "ASCENDC_TWIN_")
    assert known | set(_config.VARIABLES) == {name for name in read if name.startswith(prefixes)}


def test_unknown_environment_variables(tmp_path):
    """A misspelt variable is a warning that names it and those that there are."""
    program = "import mindspore_nsa.twin; mindspore_nsa.twin.include_dirs()"
    unknown = {"MINDSPORE_NSA_THREADS": "2", "ASCENDC_TWIN_SEEDS": "1"}
    known = {"MINDSPORE_NSA_ISA": "scalar", "ASCENDC_TWIN_SEED": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program],
        **{"cwd": tmp_path, "capture_output": True, "text": True},
        env={**os.environ, **unknown, **known},
    )
    assert done.returncode == 0, done.stderr
    for name, value in (
        ("MINDSPORE_NSA_THREADS", "MINDSPORE_NSA_ISA"),
        ("ASCENDC_TWIN_SEEDS", "SEED"),
    ):
        (line,) = [line for line in done.stderr.splitlines() if f"variable {name};" in line]
        assert value.removeprefix("ASCENDC_TWIN_") in line.partition(";")[2]
    assert done.stderr.count("Warning") == len(unknown)
