"""setup.py calls CMake and puts its files in place, here and in twin/."""

import json
import mmap
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import setuptools

from .conftest import ROOT

BUILD = runpy.run_path(str(ROOT / "twin" / "cmake_build.py"))


def test_a_loaded_library_is_replaced_not_overwritten(tmp_path):
    """A process that has the old one mapped goes on with it."""
    old, new = tmp_path / "library.so", tmp_path / "build" / "library.so"
    new.parent.mkdir()
    old.write_bytes(b"old" * 5000)
    new.write_bytes(b"new")
    new.chmod(0o755)
    with open(old, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as loaded:
        BUILD["put"](new, old)
        assert loaded[:] == b"old" * 5000
    assert old.read_bytes() == b"new" and old.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build", "library.so"]


@pytest.mark.parametrize(
    "value, found",
    [(None, True), ("", True), ("g++ -m64", True), ("env g++", True), ("no-such-compiler", False)],
)
def test_the_compiler_may_have_options(value, found, monkeypatch):
    """CXX is read the way CMake reads it."""
    if value is None:
        monkeypatch.delenv("CXX", raising=False)
    else:
        monkeypatch.setenv("CXX", value)
    assert BUILD["has_compiler"]() is found


def test_folders_of_files_are_replaced(tmp_path):
    """A file that has gone from a folder goes; files beside the folders are somebody else's."""
    new, old = tmp_path / "new", tmp_path / "old"
    for name in ("include/a/b.h", "library.so"):
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).write_text("new")
    for name in ("include/gone/c.h", "include/a/d.h", "module.py", "other/e.h"):
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_text("old")
    BUILD["put_tree"](new, old)
    left = {str(path.relative_to(old)): path.read_text() for path in old.rglob("*.*")}
    assert left == {
        **{"include/a/b.h": "new", "library.so": "new"},
        **{"module.py": "old", "other/e.h": "old"},
    }
    assert not (old / "include" / "gone").exists()


def test_operators_of_other_sources_are_not_carried(tmp_path, monkeypatch):
    """`make ascend` leaves a package in the sources, which may have changed since."""
    monkeypatch.setattr("setuptools.setup", lambda **given: None)
    carry = runpy.run_path(str(ROOT / "setup.py"))["carry_operators"]
    package, target = tmp_path / "mindspore_nsa", tmp_path / "build"
    operators, source = package / "ascend_package", tmp_path / "infer" / "a.h"
    for folder in (operators, source.parent, target / "ascend_package"):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "mindspore_nsa" / "_ascend_package.py", package)
    sources = runpy.run_path(str(package / "_ascend_package.py"))["sources"]
    source.write_text("old")
    (target / "ascend_package" / "stale").write_text("")
    (operators / "built_for.json").write_text(json.dumps({"sources": sources(tmp_path)}))
    carry(package, target)
    assert [path.name for path in (target / "ascend_package").iterdir()] == ["built_for.json"]
    source.write_text("new")
    with pytest.raises(SystemExit, match="was built from other sources: 'make ascend' again"):
        carry(package, target)
    shutil.rmtree(operators)
    carry(package, target)
    assert not (target / "ascend_package").exists()


def test_building_in_place_leaves_sources_alone(tmp_path, monkeypatch):
    """Files that an earlier build of another commit has left are not taken for this one's."""
    taken = {}
    monkeypatch.setattr("setuptools.setup", lambda **given: taken.update(given))
    command = runpy.run_path(str(ROOT / "setup.py"))
    names = command["CMakeBuild"].copy_extensions_to_source.__globals__
    monkeypatch.setitem(names, "ROOT", tmp_path)

    def install(component, prefix):
        (prefix / "cann").mkdir(parents=True)
        (prefix / "cann" / "file").write_text(component)

    package, lib = tmp_path / "mindspore_nsa", tmp_path / "build" / "lib" / "mindspore_nsa"
    sources = package / "twin" / "__init__.py"
    for path, text in (
        (sources, "new"),
        (lib / "twin" / "__init__.py", "old"),
        (lib / "m.so", "m"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    build = command["CMakeBuild"](setuptools.Distribution())
    build.extensions = [SimpleNamespace(name="mindspore_nsa.m")]
    build.build_lib = str(lib.parent)
    build.get_ext_fullpath = lambda name: str(package / "m.so")
    build._build = SimpleNamespace(folder=tmp_path / "build", install=install)
    build.copy_extensions_to_source()
    assert sources.read_text() == "new" and Path(package, "m.so").read_text() == "m"
    assert (package / "twin" / "cann" / "file").read_text() == "operators"
    assert (tmp_path / "twin" / "ascendc_twin" / "cann" / "file").read_text() == "ascendc_twin"
    assert "build_ext" in taken["cmdclass"]
