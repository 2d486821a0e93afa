"""What setup.py does around CMake, here and in twin/."""

import mmap
import runpy

import pytest

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
    """As CMake reads CXX."""
    if value is None:
        monkeypatch.delenv("CXX", raising=False)
    else:
        monkeypatch.setenv("CXX", value)
    assert BUILD["has_compiler"]() is found


def test_folders_of_files_are_replaced(tmp_path):
    """What has gone from a folder goes; files beside the folders are somebody else's."""
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
