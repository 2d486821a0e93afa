"""Sources with launches `kernel<<<...>>>(...)`, which `python -m ascendc_twin run` takes."""

import subprocess
from pathlib import Path

import pytest

import ascendc_twin
from ascendc_twin import _launches

from .. import builds
from ..programs import python

SOURCE = Path(__file__).with_name("launches.asc")
# Names of one letter stand in the twin's headers, too; the source asks for N and this tiling key.
MACROS = "-DN=5 -DM=2 -DT=4 -DU=1 -DTILING_KEY_VAR=7"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("launches")
    (folder / "launches.cpp").write_text(_launches.rewrite(SOURCE.read_text(), SOURCE))
    command = ["g++", "-std=c++17", "-O1", "-g", *MACROS.split()]
    command += [folder / "launches.cpp", *ascendc_twin.cflags(), *ascendc_twin.libs()]
    builds._run([*command, "-o", folder / "launches"])
    return folder / "launches"


def run(program, mode):
    return subprocess.run([program, mode], capture_output=True, text=True, timeout=60)


def test_in_the_order_of_the_stream(program):
    """2 x + 5, then 3 times that and 5; on vector cores by its word and by the file's type."""
    done = run(program, "right")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.splitlines() == ["<<<started>>>", "26 3086 0 3"]


def test_memory_of_aclrt_malloc_is_checked(program):
    done = run(program, "beyond")
    assert done.returncode == 1 and "kernel scale, " in done.stderr, done.stderr
    assert "launches.asc:22" in done.stderr and "out of bounds" in done.stderr
    done = run(program, "unwritten")
    assert done.returncode == 1 and "uninitialised read" in done.stderr, done.stderr
    assert "aclrtMalloc 1" in done.stderr


def test_run_takes_the_source(tmp_path):
    done = python("-m", "ascendc_twin", "run", SOURCE, "right", CXXFLAGS=MACROS)
    assert done.returncode == 0 and done.stdout.endswith("26 3086 0 3\n"), done.stderr
    broken = tmp_path / "broken.asc"
    broken.write_text("int main() {\n  kernel<<<1, nullptr(x);\n}\n")
    done = python("-m", "ascendc_twin", "run", broken)
    expected = f'{broken}:2: a launch <<<...>>> is not understood: no ">>>" ends it\n'
    assert done.returncode == 1 and done.stderr == expected


REWRITTEN = {
    "k<<<1, 0>>>(x);": '::twin::StreamLaunch("k", ::twin::LaunchCores::kDeclared, 1, 0)'
    "([](auto... twin_arguments) { k(twin_arguments...); })(x);",
    "__cube__ void k();k<<<n>>>()": '__cube__ void k();::twin::StreamLaunch("k", '
    "::twin::LaunchCores::kCube, n)([](auto... twin_arguments) { k(twin_arguments...); })()",
    "a::k<V<2>, (3 > 2)> <<<f(1), p->q, s>>> (x, y)": '::twin::StreamLaunch("a::k", '
    "::twin::LaunchCores::kDeclared, f(1), p->q, s)([](auto... twin_arguments) "
    "{ a::k<V<2>, (3 > 2)>(twin_arguments...); }) (x, y)",
}


@pytest.mark.parametrize("text", REWRITTEN)
def test_rewritten(text):
    head, _, body = _launches.rewrite(text, 'a"b.asc').rpartition("\n")
    assert body == REWRITTEN[text] and head.endswith('#line 1 "a\\"b.asc"')


@pytest.mark.parametrize("text", ['"k<<<1>>>()"', "// k<<<1>>>()", "/* <<<\n */ x << y", "R'<<<'"])
def test_left_alone(text):
    assert _launches.rewrite(text, "a.cpp") is None


@pytest.mark.parametrize("text", ["<<<1>>>(x)", "3 <<<1>>>(x)", "k<<<1; >>>(x)", "k<<<(1>>>(x)"])
def test_not_understood(text):
    with pytest.raises(ValueError, match=r"a.cpp:2: a launch <<<...>>> is not understood"):
        _launches.rewrite("\n" + text, "a.cpp")
