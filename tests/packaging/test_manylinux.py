"""The wheels of `make wheel`: installed without a compiler, and for 64-bit Arm under emulation."""

import fnmatch
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile

import pytest

from mindspore_nsa import __version__
from tests.ascendc import examples
from tests.native import builds

from .conftest import ROOT, alone, operators_example

README = (ROOT / "README.md").read_text()
INSTALLING = (ROOT / "docs" / "install.md").read_text()
TAG = re.compile(r"-manylinux_2_(\d+)_(x86_64|aarch64)\.whl$")
TOOLS = runpy.run_path(str(ROOT / "tools" / "build_wheels.py"))
# Debian 12 has glibc 2.36; its compiler asks for nothing newer than 2.34.
OLDEST, MOST_MB = (
    int(re.search(stated, INSTALLING).group(1))
    for stated in (r"glibc 2\.(\d+) or\s+newer", r"smaller\s+than (\d+) MB")
)

# Each wheel's libraries: what each needs of the others, and where it looks for them. MindSpore's
# Ascend backend, which those of the twin's folder cann stand below, exists for x86-64 only.
BESIDE = "$ORIGIN/../../ascendc_twin:$ORIGIN/../../twin/ascendc_twin"
LIBRARIES = {
    "mindspore_nsa/_native.so": (set(), None),
    "mindspore_nsa/twin/libmindspore_nsa_twin.so": ({"libascendc_twin"}, BESIDE),
    "mindspore_nsa/twin/cann/op_api/lib/libcust_opapi.so": (
        {"libmindspore_nsa_twin"},
        "$ORIGIN/../../..",
    ),
}
TWIN = {"ascendc_twin/libascendc_twin.so": (set(), None)}
CANN = {
    f"ascendc_twin/cann/{name}.so": ({"libascendc_twin"}, "$ORIGIN:$ORIGIN/..")
    for name in ("libopapi", "libascendc_twin_ascendcl", "libhccl")
}


def names(files):
    """Files of a wheel, without the Python and the processor that a module is named after."""
    return {re.sub(r"\.cpython-\d+-(x86_64|aarch64)-linux-gnu\.so$", ".so", name) for name in files}


def python(*command, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def check_file(path, machine):
    """Tag and size are those that docs/install.md states."""
    minor, found = TAG.search(path.name).groups()
    assert int(minor) <= OLDEST and found == machine
    assert path.stat().st_size < MOST_MB * 1e6


def as_finished(wheel, folder):
    """A wheel as `make wheel` finishes it."""
    repair = "import runpy, pathlib, sys; runpy.run_path('tools/build_wheels.py')['repair']"
    python("-c", f"{repair}(*map(pathlib.Path, sys.argv[1:]))", wheel, folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def repaired(wheel, tmp_path_factory):
    """The wheel under test as `make wheel` finishes it."""
    return as_finished(wheel, tmp_path_factory.mktemp("repaired"))


@pytest.fixture(scope="module")
def repaired_twin(twin_wheel, tmp_path_factory):
    """The repaired wheel of the twin."""
    return as_finished(twin_wheel, tmp_path_factory.mktemp("repaired_twin"))


def test_file(repaired, repaired_twin):
    check_file(repaired, os.uname().machine)
    check_file(repaired_twin, os.uname().machine)
    assert repaired_twin.name.startswith(f"ascendc_twin-{__version__}-py3-none-")


def test_the_page_installs_it(repaired):
    (pattern,) = re.findall(r"^pip install dist/(\S+)", INSTALLING, re.MULTILINE)
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    pattern = re.sub(r"cp3\d+", version, pattern).replace("x86_64", os.uname().machine)
    assert fnmatch.fnmatch(repaired.name, pattern)


@pytest.mark.parametrize("package", ["mindspore_nsa", "ascendc_twin"])
def test_nothing_but_the_system_is_linked(package, repaired, repaired_twin, tmp_path):
    """libgomp is the system's, as MindSpore's: two would be two teams of threads."""
    twin = package == "ascendc_twin"
    zipfile.ZipFile(repaired_twin if twin else repaired).extractall(tmp_path)
    expected = LIBRARIES
    if twin:
        expected = TWIN | (CANN if os.uname().machine == "x86_64" else {})
    libraries = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*.so*")}
    assert names(libraries) == set(expected)
    for name, library in libraries.items():
        ours, place = expected[names([name]).pop()]
        done = subprocess.run(
            ["readelf", "-d", library], capture_output=True, text=True, check=True
        )
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", done.stdout))
        needed = {re.sub(r"\.so.*", "", name) for name in needed}
        assert ours <= needed
        assert needed - ours - {"libascendc_twin"} <= {
            *("libc", "libm", "libstdc++", "libgcc_s", "libgomp", "ld-linux-x86-64"),
            "ld-linux-aarch64",
        }
        found = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", done.stdout)
        assert found == ([place] if place else []), library


def test_example_without_a_compiler(repaired, tmp_path):
    """A fresh environment, MindSpore and the wheel in it, nothing else on PATH."""
    venv.create(tmp_path / "venv", with_pip=False)
    scripts = tmp_path / "venv" / "bin"
    site = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    there = ("-m", "pip", "--python", scripts / "python")
    python(*there, "install", "--quiet", "--no-deps", "--no-index", repaired)
    # MindSpore and its needs are those of the environment that runs the tests.
    (site / "mindspore.pth").write_text(sysconfig.get_path("purelib"))
    parts = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    (tmp_path / "example.py").write_text("".join(parts) + operators_example())
    check = "import mindspore_nsa, shutil; print(mindspore_nsa.__file__, shutil.which('g++'))\n"
    (tmp_path / "where.py").write_text(check)
    outputs = []
    for script in ("where.py", "example.py"):
        done = subprocess.run(
            [scripts / "python", tmp_path / script],
            cwd=tmp_path,
            env={"PATH": str(scripts), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.splitlines())
    assert outputs[0] == [f"{site / 'mindspore_nsa' / '__init__.py'} None"]
    shapes = ["(2, 1024, 256)", "(2048, 256)", "(2, 7, 256)", "(2, 1024, 8, 32)"]
    assert outputs[1][:4] == shapes
    assert 0 < float(outputs[1][4]) < 10


def test_interpreters(tmp_path, monkeypatch):
    """Pythons on PATH come first, then pyenv's; other versions and broken ones are left out."""
    versions = tmp_path / ".pyenv" / "versions"
    for name in ("3.9.1/bin/python3.9", "3.12.1/bin/python3.12"):
        (versions / name).parent.mkdir(parents=True)
        (versions / name).write_text("#!/bin/sh\nexit 1\n")
        (versions / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    names = TOOLS["usual_names"]()
    assert names == ["python3.10", "python3.11", "python3.12", str(versions / name)]
    found = TOOLS["interpreters"]([str(versions / name), sys.executable])
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert {key: value[0] for key, value in found.items()} == {version: sys.executable}


def test_older_wheels_go(tmp_path):
    """`pip install dist/*-cp311-*_x86_64.whl` is to name one version of the package."""
    version, machine = "cp311-cp311", "manylinux_2_34_x86_64"
    older = f"mindspore_nsa-0.1.0-{version}-{machine}.whl"
    others = [
        f"ascendc_twin-0.1.0-py3-none-{machine}.whl",
        f"mindspore_nsa-0.1.0-cp312-cp312-{machine}.whl",
        f"mindspore_nsa-0.1.0-{version}-manylinux_2_34_aarch64.whl",
        "mindspore_nsa-0.1.0.tar.gz",
    ]
    for name in (older, *others):
        (tmp_path / name).touch()
    TOOLS["remove_older"](tmp_path / f"mindspore_nsa-0.2.0-{version}-linux_x86_64.whl", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_build_tools_are_the_listed_ones(tmp_path, monkeypatch):
    """Wheels of one commit are equal where pybind11, CMake and setuptools are."""
    commands = []
    function = TOOLS["build_venv"]
    monkeypatch.setitem(function.__globals__, "run", commands.append)
    monkeypatch.setitem(function.__globals__, "BUILD", tmp_path)
    function("3.11", sys.executable)
    assert commands[0][1:3] == ["-m", "venv"]
    install = commands[1]
    constraints = install[install.index("-c") + 1]
    for name in ("setuptools", "wheel", "cmake", "ninja", "pybind11"):
        assert any(str(part).startswith(name) for part in install)
        assert re.search(rf"^{name}==", constraints.read_text(), re.MULTILINE), name


@pytest.fixture(scope="module")
def arm_wheels(tmp_path_factory):
    """The wheels for 64-bit Arm, unpacked into one folder."""
    builds.need(builds.NEON_O3)
    builds.compile_replay(builds.NEON_O3)  # ccache then has the kernels, which take longest
    dist = tmp_path_factory.mktemp("dist")
    command = ("tools/build_wheels.py", "--machine", "aarch64", "--dist", dist)
    with alone():
        python(*command, "--python", sys.executable)
    for path in dist.glob("*.whl"):
        check_file(path, "aarch64")
        zipfile.ZipFile(path).extractall(dist / "unpacked")
    return dist / "unpacked"


@pytest.mark.soak
def test_arm_contents(arm_wheels, wheel, twin_wheel):
    """Wheels of Arm hold the same files, but none below MindSpore's Ascend backend."""
    files = [path for path in arm_wheels.rglob("*") if path.is_file()]
    unpacked = {str(path.relative_to(arm_wheels)) for path in files}
    here = {name for one in (wheel, twin_wheel) for name in zipfile.ZipFile(one).namelist()}
    assert names(unpacked) == names(here) - set(CANN)
    libraries = [name for name in unpacked if name.endswith(".so")]
    assert names(libraries) == set(LIBRARIES) | set(TWIN)
    for name in libraries:
        command = ["readelf", "-h", arm_wheels / name]
        header = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "AArch64" in header.stdout, name


@pytest.mark.soak
def test_arm_twin_runs(arm_wheels, tmp_path):
    """A program of the documentation, compiled against the Arm wheels and emulated."""
    folder = ROOT / "ascendc" / "examples"
    shutil.copy(folder / "acl_program.h", tmp_path)
    operators, twin = arm_wheels / "mindspore_nsa" / "twin", arm_wheels / "ascendc_twin"
    headers = (
        *(tmp_path, operators / "include"),
        *(twin / "include", twin / "include" / "twin" / "include"),
    )
    libraries = (operators / "libmindspore_nsa_twin.so", twin / "libascendc_twin.so")
    subprocess.run(
        [builds.CROSS, "-std=c++17", folder / "aclnn_nsa_compress.cpp", "-o", "example"]
        + [f"-I{header}" for header in headers]
        + [*libraries, *(f"-Wl,-rpath,{library.parent}" for library in libraries)],
        cwd=tmp_path,
        check=True,
    )
    done = subprocess.run(
        [builds.QEMU, "-L", "/usr/aarch64-linux-gnu", "./example"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    examples.check_nsa_compress(done.stdout)
