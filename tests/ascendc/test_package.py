"""`make ascend`: what it says without CANN, how sources are laid out, built and installed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mindspore_nsa import _ascend_package, _native, twin
from tools.ascend_project import make_cxx17

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = "tools/op_project_templates/ascendc"
FOLDERS = sorted(path.parent.name for path in (ROOT / "ascendc").glob("*/op_kernel"))


def make_ascend(*options, **environment):
    hidden = ("ASCEND_HOME_PATH", "ASCEND_CUSTOM_OPP_PATH")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
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
    done = make_ascend("--soc", "ascend310p")
    assert done.returncode == 1 and "got 'ascend310p'" in done.stderr
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
    assert all(path.parent == staged / part and path.suffix in (".cpp", ".h") for path in files)
    for op in FOLDERS:
        assert (staged / part / f"{op}.cpp").exists()
    text = "".join(path.read_text() for path in files)
    assert '#include "ascendc/' not in text and '#include "infer/' not in text


def test_a_kernel_is_found_by_its_definition(staged):
    """One entry in each kernel's file, named after the type, and the file that the type names."""
    types = {_native.ascend_type(op) for op in _native.ascend_operators()}
    for op in FOLDERS:
        definition = (staged / "op_host" / f"{op}.cpp").read_text()
        (name,) = re.findall(r"^OP_ADD\((\w+)\);", definition, re.MULTILINE)
        types.remove(name)
        assert f'add_products(AICore(), "{op}")' in definition
        kernel = (staged / "op_kernel" / f"{op}.cpp").read_text()
        entries = re.findall(r"__global__ __aicore__ void (\w+)\(", kernel)
        assert entries == [re.sub(r"\B([A-Z])", r"_\1", name).lower()]
    assert not types


def test_no_name_is_cann_s():
    """Neither a type nor a function of the package is one of CANN's own."""
    text = (Path(__file__).parent / "cann_names.txt").read_text()
    sections = dict(re.findall(r"^\[(\w+)\]\n([^\[]*)", text, re.MULTILINE))
    functions, types = (set(sections[name].split()) for name in ("functions", "types"))
    assert {"aclnnNsaCompress", "aclnnAdd"} <= functions and {"NsaCompress", "Add"} <= types
    exported = {_native.ascend_type(op) for op in _native.ascend_operators()}
    assert len(exported) == len(FOLDERS)
    assert not exported & types
    made = {f"aclnn{name}{phase}" for name in exported for phase in ("", "GetWorkspaceSize")}
    theirs = functions | {f"{name}GetWorkspaceSize" for name in functions}
    assert not made & theirs


# The standard in CANN's project templates, in words of this test: the older one brings its
# functions along, those of the newer one belong to the toolkit.
OLDER = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.16)
project(opp CXX)
include(cmake/func.cmake)
include(cmake/intf.cmake)
file(GLOB sources op_host/nsa_compress.cpp op_host/nsa_compress_tiling.cpp)
definitions_of(${sources})
add_library(host OBJECT ${sources})
target_link_libraries(host PRIVATE intf_pub)
""",
    "cmake/func.cmake": """
function(definitions_of)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -fsyntax-only -std=c++11
    -I${CANN}/include -I${CANN}/headers ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "the definitions do not compile")
  endif()
endfunction()
""",
    "cmake/intf.cmake": """
add_library(intf_pub INTERFACE)
target_compile_options(intf_pub INTERFACE -fsyntax-only $<$<COMPILE_LANGUAGE:CXX>:-std=c++11>)
target_include_directories(intf_pub INTERFACE ${CANN}/include ${CANN}/headers)
""",
}
NEWER = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.16)
project(opp CXX)
file(GLOB sources op_host/*.cpp)
npu_op_code_gen(
  SRC ${sources}
  PACKAGE operators
  OUT_DIR ${CMAKE_CURRENT_BINARY_DIR}/generated
)
""",
}


def write(files, folder):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_newer_template_is_told_the_standard(tmp_path):
    write(NEWER, tmp_path)
    assert make_cxx17(tmp_path) == ["CMakeLists.txt"]
    text = (tmp_path / "CMakeLists.txt").read_text()
    assert "set(CMAKE_CXX_STANDARD 17)" in text
    assert re.search(r"npu_op_code_gen\([^)]*COMPILE_OPTIONS -std=c\+\+17\s*\)", text)
    given = text.replace("COMPILE_OPTIONS -std=c++17", "COMPILE_OPTIONS -g")
    write({"CMakeLists.txt": given}, tmp_path)
    make_cxx17(tmp_path)
    assert "COMPILE_OPTIONS -std=c++17 -g" in (tmp_path / "CMakeLists.txt").read_text()


INSTALLER = """#!/bin/bash
for argument in "$@"; do
  case $argument in --install-path=*) folder=${argument#*=}/vendors/mindspore_nsa ;; esac
done
[ -n "$folder" ] && [ -z "$ASCEND_CUSTOM_OPP_PATH" ] || exit 4
mkdir -p $folder/op_api/lib $folder/bin && echo $folder > $folder/bin/set_env.bash
touch $folder/op_api/lib/libcust_opapi.so
"""


@pytest.fixture
def cann(tmp_path):
    """A CANN with the twin's headers, whose older template compiles what it is given."""
    root = tmp_path / "cann"
    project = root / TEMPLATE / "customize"
    for part in ("op_host", "op_kernel"):
        (project / part).mkdir(parents=True)
        (project / part / "add_custom.cpp").write_text("the template's own operator")
    (root / TEMPLATE / "common").mkdir()
    (root / "version.info").write_text("Version=9.0.0\n")
    variables = ("ASCEND_CANN_PACKAGE_PATH", "vendor_name", "ASCEND_COMPUTE_UNIT")
    preset = {"cacheVariables": {name: {"value": ""} for name in variables}}
    write(OLDER, project)
    root_of_headers, names, _ = twin.include_dirs()
    (root / "include").symlink_to(names)
    (root / "headers").symlink_to(root_of_headers)  # which those of the twin include
    (project / "CMakePresets.json").write_text(json.dumps({"configurePresets": [preset]}))
    cmake = Path(sys.executable).parent / "cmake"
    (project / "build.sh").write_text(f"""set -e
mkdir -p build_out
{cmake} -S . -B build -DCANN={root}
{cmake} --build build -j 2 -v > build_out/commands.txt
cat > build_out/custom_opp.run <<'END'
{INSTALLER}
END
""")
    return root


def test_build_and_install(cann, tmp_path, monkeypatch):
    """Built as C++17 in a folder of any name, for the user alone; a wheel would carry it."""
    folder, target = tmp_path / "with a + space", tmp_path / "installed"
    options = ("--folder", str(folder), "--install-path", str(target))
    done = make_ascend(*options, ASCEND_HOME_PATH=str(cann))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"make ascend: {', '.join(FOLDERS)} laid out" in done.stdout
    (place,) = re.findall(r"built (\S*/CustomProject)/build_out/custom_opp\.run for", done.stdout)
    project = Path(place)
    assert (project / "op_host" / "nsa_compress.cpp").exists()
    assert not (project / "op_host" / "add_custom.cpp").exists()
    commands = (project / "build_out" / "commands.txt").read_text()
    assert "-std=c++17" in commands and "-std=c++11" not in commands
    (preset,) = json.loads((project / "CMakePresets.json").read_text())["configurePresets"]
    values = {name: entry["value"] for name, entry in preset["cacheVariables"].items()}
    assert values["vendor_name"] == "mindspore_nsa"
    assert values["ASCEND_COMPUTE_UNIT"] == "ascend910b;ascend910_93"

    package = target / "vendors" / "mindspore_nsa"
    assert not (package / "bin").exists() and not (cann / "opp").exists()
    monkeypatch.setattr(_ascend_package, "FOLDER", package)
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", "/of/the/user")
    _ascend_package.announce()
    _ascend_package.announce()
    assert os.environ["ASCEND_CUSTOM_OPP_PATH"] == f"/of/the/user:{package}"
    text = _ascend_package.described()
    assert text.startswith(str(package)) and "ascend910b, ascend910_93, CANN 9.0.0" in text


def test_what_cannot_be_built_is_one_line(cann, tmp_path):
    """A template without a standard, and a build that fails."""
    project = cann / TEMPLATE / "customize"
    for path in project.rglob("*.cmake"):
        path.unlink()
    (project / "CMakeLists.txt").write_text("project(opp CXX)\n")
    options = ("--folder", str(tmp_path / "package"), "--install-path", str(tmp_path / "to"))
    done = make_ascend(*options, "--soc", "ascend910_93", ASCEND_HOME_PATH=str(cann))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("make ascend: CANN's template cannot build C++17: nothing in it says")
    write(OLDER, project)
    (project / "build.sh").write_text("exit 3\n")
    done = make_ascend(*options, ASCEND_HOME_PATH=str(cann))
    assert done.returncode == 1 and "CANN's build failed; see " in done.stderr
    assert not (tmp_path / "to").exists()


def test_nothing_is_announced_where_nothing_is(monkeypatch, tmp_path):
    monkeypatch.setattr(_ascend_package, "FOLDER", tmp_path)
    monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH", raising=False)
    _ascend_package.announce()
    assert "ASCEND_CUSTOM_OPP_PATH" not in os.environ
    assert "make ascend" in _ascend_package.described()


def test_host_sources_compile_where_they_are(staged):
    """All of them, one by one as CANN's template would, with nothing of the repository in reach."""
    sources = sorted((staged / "op_host").glob("*.cpp"))
    ours = [*(ROOT / "ascendc").glob("*/op_host/*.cpp"), *(ROOT / "infer").glob("*.cc")]
    assert len(sources) == len(ours) > 40
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", *twin.cflags()]
    done = subprocess.run([*command, *sources], capture_output=True, text=True, cwd=staged)
    assert done.returncode == 0, done.stderr[-4000:]


def test_kernels_compile_where_they_are(staged):
    """Against the twin's headers, which have CANN's names."""
    for source in sorted((staged / "op_kernel").glob("nsa_compress*.cpp")):
        command = ["g++", "-std=c++17", "-fsyntax-only", "-DDTYPE_INPUT=half"]
        command += ["-DDTYPE_QUERY=half", "-w", *twin.cflags(), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
