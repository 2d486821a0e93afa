"""`make ascend`: what it says without CANN, the layout of the sources, and the build's course."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mindspore_nsa import twin

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = "tools/op_project_templates/ascendc"


def make_ascend(*options, **environment):
    env = {name: value for name, value in os.environ.items() if name != "ASCEND_HOME_PATH"}
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "ascend_package.py", *options],
        env={**env, **environment},
        capture_output=True,
        text=True,
    )


def test_without_cann(tmp_path):
    done = make_ascend()
    assert done.returncode == 1 and "ASCEND_HOME_PATH is not set" in done.stderr
    done = make_ascend(ASCEND_HOME_PATH="/no/such/folder")
    assert done.returncode == 1
    assert "ASCEND_HOME_PATH is /no/such/folder, which is not a folder" in done.stderr
    done = make_ascend(ASCEND_HOME_PATH=str(tmp_path))
    assert done.returncode == 1 and f"{tmp_path} has no template of an" in done.stderr
    makefile = (ROOT / "Makefile").read_text()
    assert "tools/ascend_package.py" in makefile


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    done = make_ascend("--stage-only", "--folder", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("part", ["op_host", "op_kernel"])
def test_layout(staged, part):
    """Flat, complete, and nothing in it includes a path of the repository."""
    files = list((staged / part).rglob("*"))
    assert all(path.parent == staged / part for path in files)
    for op in (path.parent.name for path in (ROOT / "ascendc").glob("*/op_kernel")):
        assert (staged / part / f"{op}.cpp").exists()
    text = "".join(path.read_text() for path in files)
    assert '#include "ascendc/' not in text and '#include "infer/' not in text


def test_sources_compile_where_they_are(staged):
    """Against the twin's headers, which have CANN's names."""
    for part, options in (
        ("op_host", []),
        ("op_kernel", ["-DDTYPE_INPUT=half", "-DDTYPE_QUERY=half", "-w"]),
    ):
        for source in sorted((staged / part).glob("nsa_compress*.cpp")):
            command = ["g++", "-std=c++17", "-fsyntax-only", *options, f"-I{staged / part}"]
            command = [*command, *twin.cflags(), str(source)]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


def test_build(tmp_path):
    """With a CANN whose project template only records what it was given."""
    project = tmp_path / "cann" / TEMPLATE / "customize"
    for part in ("op_host", "op_kernel"):
        (project / part).mkdir(parents=True)
        (project / part / "add_custom.cpp").write_text("the template's own operator")
    (tmp_path / "cann" / TEMPLATE / "common").mkdir()
    variables = ("ASCEND_CANN_PACKAGE_PATH", "vendor_name", "ASCEND_COMPUTE_UNIT")
    preset = {"cacheVariables": {name: {"value": ""} for name in variables}}
    (project / "CMakePresets.json").write_text(json.dumps({"configurePresets": [preset]}))
    build = "mkdir build_out && ls op_host op_kernel > build_out/custom_opp.run\n"
    (project / "build.sh").write_text(build)
    folder = tmp_path / "package"
    done = make_ascend("--folder", str(folder), ASCEND_HOME_PATH=str(tmp_path / "cann"))
    assert done.returncode == 0, done.stdout + done.stderr
    operators = sorted(path.parent.name for path in (ROOT / "ascendc").glob("*/op_kernel"))
    assert f"make ascend: {', '.join(operators)} laid out" in done.stdout
    assert "custom_opp.run" in done.stdout
    custom = folder / "custom_compiler" / "CustomProject"
    names = (custom / "build_out" / "custom_opp.run").read_text().split()
    assert {"nsa_compress.cpp", "infer_op.h"} <= set(names) and "add_custom.cpp" not in names
    (preset,) = json.loads((custom / "CMakePresets.json").read_text())["configurePresets"]
    values = [preset["cacheVariables"][name]["value"] for name in variables]
    assert values == [str(tmp_path / "cann"), "mindspore_nsa", "ascend910b"]
    (project / "build.sh").write_text("exit 3\n")
    done = make_ascend("--folder", str(folder), ASCEND_HOME_PATH=str(tmp_path / "cann"))
    assert done.returncode == 1 and "CANN's build failed; its output is in" in done.stderr
