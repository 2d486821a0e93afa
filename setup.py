"""Builds the native libraries with CMake; the rest of the package is in pyproject.toml."""

import json
import os
import runpy
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


def commit():
    """Output of `git describe`, as the module reports it where nothing was built."""
    return runpy.run_path(str(ROOT / "mindspore_nsa" / "_version.py"))["commit"]()


def carry_operators(package, target):
    """Copy what `make ascend` has left in the sources, on a machine with CANN."""
    operators, carried = package / "ascend_package", target / "ascend_package"
    # An earlier build may have carried another one.
    shutil.rmtree(carried, ignore_errors=True)
    if not operators.is_dir():
        return
    built = json.loads((operators / "built_for.json").read_text())
    module = runpy.run_path(str(package / "_ascend_package.py"))
    if built.get("sources") != module["sources"](package.parent):
        sys.exit(f"{operators} was built from other sources: 'make ascend' again, or remove it")
    shutil.copytree(operators, carried)


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
        if not self.inplace:
            (target.parent / "_commit.txt").write_text(f"{commit()}\n")
            carry_operators(ROOT / "mindspore_nsa", target.parent)

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
