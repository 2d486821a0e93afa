"""Builds the native libraries with CMake; the rest of the package is in pyproject.toml."""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

if not (3, 10) <= sys.version_info[:2] <= (3, 12):
    sys.exit(
        "mindspore_nsa needs Python 3.10, 3.11 or 3.12 (the versions MindSpore has wheels for), "
        f"got {sys.version.split()[0]} at {sys.executable}"
    )

ROOT = Path(__file__).resolve().parent


def tool(name):
    """Path of cmake or ninja, None if missing: of this environment's PyPI package, or from PATH."""
    beside_python = Path(sys.executable).with_name(name)
    return str(beside_python) if beside_python.exists() else shutil.which(name)


def has_compiler():
    """Whether the C++ compiler that CMake will take is there."""
    # CXX may hold options, or a launcher before the compiler; empty is as if it were not set.
    words = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    return shutil.which(words[0]) is not None


def require_packages():
    """Name every package without which the build would end in the middle."""
    missing = [name for name in ("setuptools", "pybind11") if find_spec(name) is None]
    missing += [name for name in ("cmake", "ninja") if tool(name) is None]
    if missing:
        sys.exit(
            f"building mindspore_nsa needs {', '.join(missing)}: "
            f"{sys.executable} -m pip install {' '.join(missing)}"
        )


if find_spec("setuptools") is None:
    require_packages()

from setuptools import Extension, setup  # noqa: E402
from setuptools.command.build_ext import build_ext  # noqa: E402


def put(source, target):
    """Copy to another name and rename: whoever has the old file loaded keeps it."""
    part = target.with_name(target.name + ".part")
    shutil.copy2(source, part)
    os.replace(part, target)


class CMakeBuild(build_ext):
    """One CMake configure and build; ninja rebuilds only what changed since the last one."""

    def build_extension(self, ext):
        if not has_compiler():
            sys.exit("building mindspore_nsa needs a C++17 compiler: apt-get install g++")
        if not Path(sysconfig.get_path("include"), "Python.h").exists():
            sys.exit("building mindspore_nsa needs Python's headers: apt-get install python3-dev")
        require_packages()
        import pybind11

        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        build = Path(os.environ.get("NSA_BUILD_DIR") or self.build_temp).resolve()
        build.mkdir(parents=True, exist_ok=True)
        configure = [
            tool("cmake"),
            "-S",
            str(ROOT),
            "-B",
            str(build),
            "-G",
            "Ninja",
            f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
            f"-DPython_EXECUTABLE={sys.executable}",
            # Where it builds for another processor, CMake does not ask the interpreter for it.
            f"-DPython_INCLUDE_DIR={sysconfig.get_path('include')}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            f"-DNSA_MODULE_DIR={target.parent}",
            f"-DNSA_MODULE_FILE={target.name}",
        ]
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(len(os.sched_getaffinity(0)))
        # The twin's library and headers are files of the package.
        twin = [tool("cmake"), "--install", str(build), "--component", "twin", "--prefix"]
        install = [*twin, str(target.parent / "twin")]
        # Headers that have gone from the sources would stay here.
        shutil.rmtree(target.parent / "twin" / "include", ignore_errors=True)
        for command in (configure, [tool("cmake"), "--build", str(build), "-j", jobs], install):
            try:
                subprocess.run(command, check=True)
            except subprocess.CalledProcessError as error:
                sys.exit(f"building mindspore_nsa failed: {' '.join(error.cmd)}")
        # What `make ascend` has left there, on a machine with CANN.
        operators = ROOT / "mindspore_nsa" / "ascend_package"
        carried = target.parent / operators.name
        if operators.is_dir() and carried != operators:
            shutil.copytree(operators, carried, dirs_exist_ok=True)

    def copy_extensions_to_source(self):
        """Building in place: the twin goes where the module goes."""
        for ext in self.extensions:
            module = Path(self.get_ext_fullpath(ext.name)).resolve()
            built = Path(self.build_lib, *ext.name.split(".")[:-1]).resolve()
            put(built / module.name, module)
            library = Path("twin", "libmindspore_nsa_twin.so")
            include = Path("twin", "include")
            shutil.rmtree(module.parent / include, ignore_errors=True)
            shutil.copytree(built / include, module.parent / include)
            put(built / library, module.parent / library)
            stand_in = Path("twin", "cann")
            (module.parent / stand_in).mkdir(exist_ok=True)
            for path in (built / stand_in).glob("*.so"):
                put(path, module.parent / stand_in / path.name)


setup(
    ext_modules=[Extension("mindspore_nsa._native", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
