"""Builds the twin's library with CMake; the rest of the package is in pyproject.toml."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

import cmake_build  # noqa: E402

cmake_build.require_packages("ascendc_twin", "setuptools")

from setuptools import Extension, setup  # noqa: E402
from setuptools.command.bdist_wheel import bdist_wheel  # noqa: E402
from setuptools.command.build_ext import build_ext  # noqa: E402


class CMakeBuild(build_ext):
    """The library, the headers and what stands for CANN's libraries, as files of the package."""

    def _install(self, prefix):
        build = cmake_build.Build(
            "ascendc_twin", os.environ.get("ASCENDC_TWIN_BUILD_DIR") or self.build_temp
        )
        # A folder of a project that includes the twin has been configured by that project.
        if build.source() in (None, ROOT):
            build.configure(ROOT)
        build.build("ascendc_twin_package")
        build.install("ascendc_twin", prefix)

    def build_extension(self, ext):
        target = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        if self.inplace:
            self._install(Path(self.build_temp).resolve() / "package")
            cmake_build.put_tree(Path(self.build_temp).resolve() / "package", target)
        else:
            self._install(target)

    def copy_extensions_to_source(self):
        """They are there."""


class Wheel(bdist_wheel):
    """A wheel for a processor and every Python: no file of it knows the interpreter."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension("ascendc_twin._library", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "bdist_wheel": Wheel},
)
