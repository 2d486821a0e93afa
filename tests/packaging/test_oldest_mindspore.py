"""The wheels in a clean environment with the oldest supported MindSpore: every operator works."""

import re
import shutil
import subprocess
import sys

import pytest

from .conftest import ROOT

OLDEST = "2.7.1"
# PyPI has no MindSpore 2.7.1 for Python 3.12.
PYTHONS = ((3, 10), (3, 11))


@pytest.fixture(scope="module")
def python(wheel, twin_wheel):
    """The Python of .venv-ms271, with the wheels installed."""
    if sys.version_info[:2] not in PYTHONS:
        pytest.skip(f"MindSpore {OLDEST} has no wheel for Python {sys.version.split()[0]}")
    python = ROOT / ".venv-ms271" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    install = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    install.append("--no-compile")  # Python compiles what is imported
    subprocess.run([*install, f"mindspore=={OLDEST}", "pytest", wheel, twin_wheel], check=True)
    subprocess.run([*install, "--no-deps", "--force-reinstall", wheel, twin_wheel], check=True)
    return python


def test_every_operator(python, tmp_path):
    shutil.copytree(ROOT / "tests" / "smoke", tmp_path / "smoke")
    code = "import mindspore, mindspore_nsa; print(mindspore.__version__, mindspore_nsa.__file__)"
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    version, path = done.stdout.split()[-2:]
    assert version == OLDEST and path.startswith(str(python.parents[1]))
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "smoke"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"^(\d+) passed in ", done.stdout, re.MULTILINE)
    assert passed and int(passed[1]) >= 60, done.stdout[-500:]
