"""C++ that the benchmarks compile when they run."""

import atexit
import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def compiled(name, *arguments):
    """A shared library, loaded; `arguments` of the compiler are sources, flags and libraries."""
    folder = tempfile.mkdtemp(prefix=f"nsa_{name}_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"{name}.so")
    flags = ["-std=c++17", "-fPIC", "-shared", "-Wall", "-Wextra"]
    command = [os.environ.get("CXX", "g++"), *flags, *map(str, arguments), "-o", str(path)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(path))
