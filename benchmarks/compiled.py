"""C++ that the benchmarks compile when they run."""

import atexit
import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def _as_far(path, other):
    """A path below that of a file which is no shorter than another one."""
    more = max(len(other.parts) - len(path.parts), 0)
    path = path.parent.joinpath(*more * ["x"], path.name)
    missing = max(len(str(other)) - len(str(path)), 0)
    return path.with_name(f"{path.stem}{missing * '_'}{path.suffix}")


def compiled(name, *arguments, like=None):
    """A shared library, loaded; `arguments` of the compiler are sources, flags and libraries.

    Its path has as many folders as that of the library `like`, or more, and is as long, or longer.
    """
    folder = tempfile.mkdtemp(prefix=f"nsa_{name}_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"{name}.so")
    if like is not None:
        path = _as_far(path, Path(like))
        path.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-std=c++17", "-fPIC", "-shared", "-Wall", "-Wextra"]
    command = [os.environ.get("CXX", "g++"), *flags, *map(str, arguments), "-o", str(path)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(path))
