"""What setup.py does around CMake."""

import mmap
import runpy

import pytest
import setuptools

from .conftest import ROOT


def test_a_loaded_library_is_replaced_not_overwritten(tmp_path, monkeypatch):
    """A process that has the old one mapped goes on with it."""
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    put = runpy.run_path(str(ROOT / "setup.py"))["put"]
    old, new = tmp_path / "library.so", tmp_path / "build" / "library.so"
    new.parent.mkdir()
    old.write_bytes(b"old" * 5000)
    new.write_bytes(b"new")
    new.chmod(0o755)
    with open(old, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as loaded:
        put(new, old)
        assert loaded[:] == b"old" * 5000
    assert old.read_bytes() == b"new" and old.stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build", "library.so"]


@pytest.mark.parametrize(
    "value, found",
    [(None, True), ("", True), ("g++ -m64", True), ("env g++", True), ("no-such-compiler", False)],
)
def test_the_compiler_may_have_options(value, found, monkeypatch):
    """As CMake reads CXX."""
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    if value is None:
        monkeypatch.delenv("CXX", raising=False)
    else:
        monkeypatch.setenv("CXX", value)
    assert runpy.run_path(str(ROOT / "setup.py"))["has_compiler"]() is found
