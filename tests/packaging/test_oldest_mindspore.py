"""The wheels in clean environments with each supported MindSpore: every operator works."""

import re
import shutil
import subprocess
import sys

import pytest

from .conftest import ROOT

OLDEST = "2.7.1"
# make test has the oldest, and in all else the newest.
VERSIONS = (
    OLDEST,
    *(pytest.param(version, marks=pytest.mark.soak) for version in ("2.8.0", "2.9.0", "2.10.0")),
)
# PyPI has no MindSpore 2.7.1 for Python 3.12.
PYTHONS = ((3, 10), (3, 11))


@pytest.fixture(scope="module", params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def python(version, wheel, twin_wheel):
    """The Python of .venv-ms271 or its like, with the wheels installed."""
    if version == OLDEST and sys.version_info[:2] not in PYTHONS:
        pytest.skip(f"MindSpore {OLDEST} has no wheel for Python {sys.version.split()[0]}")
    python = ROOT / f".venv-ms{version.replace('.', '')}" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    install = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    install.append("--no-compile")  # Python compiles what is imported
    subprocess.run([*install, f"mindspore=={version}", "pytest", wheel, twin_wheel], check=True)
    subprocess.run([*install, "--no-deps", "--force-reinstall", wheel, twin_wheel], check=True)
    return python


def test_every_operator(python, version, tmp_path):
    shutil.copytree(ROOT / "tests" / "smoke", tmp_path / "smoke")
    code = "import mindspore, mindspore_nsa; print(mindspore.__version__, mindspore_nsa.__file__)"
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    installed, path = done.stdout.split()[-2:]
    assert installed == version and path.startswith(str(python.parents[1]))
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "smoke"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"^(\d+) passed in ", done.stdout, re.MULTILINE)
    assert passed and int(passed[1]) >= 60, done.stdout[-500:]
