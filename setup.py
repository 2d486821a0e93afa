"""Builds the native libraries with CMake; the rest of the package is in pyproject.toml."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

if not (3, 10) <= sys.version_info[:2] <= (3, 12):
    sys.exit(
        "mindspore_nsa needs Python 3.10, 3.11 or 3.12 (the versions MindSpore has wheels for), "
        f"got {sys.version.split()[0]} at {sys.executable}"
    )

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "twin"))

from cmake_build import Build, put, put_tree, require_packages  # noqa: E402

require_packages("mindspore_nsa", "setuptools", "pybind11")

from setuptools import Extension, setup  # noqa: E402
from setuptools.command.build_ext import build_ext  # noqa: E402


class CMakeBuild(build_ext):
    """The module, and the Ascend operators compiled against the twin, which is built with them. The
    twin itself is a package of its own (twin/setup.py)."""

    def build_extension(self, ext):
        if not Path(sysconfig.get_path("include"), "Python.h").exists():
            sys.exit("building mindspore_nsa needs Python's headers: apt-get install python3-dev")
        import pybind11

        self._build = Build("mindspore_nsa", os.environ.get("NSA_BUILD_DIR") or self.build_temp)
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        self._build.configure(
            ROOT,
            f"-DPython_EXECUTABLE={sys.executable}",
            # Where it builds for another processor, CMake does not ask the interpreter for it.
            f"-DPython_INCLUDE_DIR={sysconfig.get_path('include')}",
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            f"-DNSA_MODULE_DIR={target.parent}",
            f"-DNSA_MODULE_FILE={target.name}",
        )
        self._build.build()
        # Headers that have gone from the sources would stay here.
        for name in ("include", "cann"):
            shutil.rmtree(target.parent / "twin" / name, ignore_errors=True)
        self._build.install("operators", target.parent / "twin")
        # What `make ascend` has left there, on a machine with CANN.
        operators = ROOT / "mindspore_nsa" / "ascend_package"
        carried = target.parent / operators.name
        if operators.is_dir() and carried != operators:
            shutil.copytree(operators, carried, dirs_exist_ok=True)

    def copy_extensions_to_source(self):
        """Building in place: the operators go where the module goes, the twin into its package."""
        for ext in self.extensions:
            module = Path(self.get_ext_fullpath(ext.name)).resolve()
            put(Path(self.build_lib, *ext.name.split(".")[:-1], module.name), module)
            self._put("operators", module.parent / "twin")
        self._put("ascendc_twin", ROOT / "twin" / "ascendc_twin")

    def _put(self, component, target):
        """From a folder of its own: Python files in `build_lib` may be those of another commit."""
        folder = self._build.folder / f"{component}_package"
        shutil.rmtree(folder, ignore_errors=True)
        self._build.install(component, folder)
        put_tree(folder, target)


setup(
    ext_modules=[Extension("mindspore_nsa._native", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
