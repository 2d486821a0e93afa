"""Which unit compiles a C++ file, and with which flags."""

import json
import os
import shlex
import subprocess
from functools import lru_cache
from pathlib import Path

from twin import cmake_build

from .cpp_places import parsed

# Options of the build that libclang does not know, with the file that follows them.
_WITH_A_FILE = ("-o", "-c", "-include", "-MF", "-MT")


@lru_cache
def _headers():
    """The compiler's own headers: libclang's package has none."""
    command = ["g++", "-print-file-name=include"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return ["-isystem", found]


def _kernels(tree):
    """A unit of all kernels for Ascend, as arguments of `parsed`."""
    kernels = sorted((tree / "ascendc").glob("*/op_kernel/*.cpp"))
    text = "".join(f"#define DTYPE_{name} half\n" for name in ("INPUT", "QUERY", "SELECTED"))
    text += "".join(f'#include "{path}"\n' for path in kernels)
    twin = tree / "twin" / "ascendc_twin" / "include"
    include = (tree, twin, twin / "twin" / "include")
    flags = ["-std=c++17", "-DASCENDC_CPU_DEBUG=1", *(f"-I{folder}" for folder in include)]
    return tree / "ascendc" / "kernels.cc", [*flags, *_headers()], text


def kernels_unit(tree):
    """The syntax tree of all kernels for Ascend."""
    source, flags, text = _kernels(tree)
    return parsed(source, flags, text)


class Units:
    """The units of a copy that has been built."""

    def __init__(self, copy):
        self._tree, self._build = copy.tree, copy.build
        commands = copy.build / "compile_commands.json"
        self._commands = json.loads(commands.read_text()) if commands.exists() else []
        self._kept = {}

    @property
    @lru_cache  # noqa: B019 - one object lives as long as the program
    def _included(self):
        """{file: the first command of the build that reads it}, by the compiler's own account."""
        command = [cmake_build.tool("ninja"), "-C", self._build, "-t", "deps"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        objects = {self._absolute(entry["output"]): entry for entry in self._commands}
        found = {entry["file"]: entry for entry in self._commands}
        for unit in listed.split("\n\n"):
            name, *files = unit.strip().splitlines() or [""]
            entry = objects.get(self._absolute(name.partition(":")[0]))
            for file in files if entry else ():
                found.setdefault(self._absolute(file.strip()), entry)
        return found

    def _absolute(self, name):
        """CMake writes whole paths, Ninja and ccache some that begin at the build."""
        return os.path.normpath(self._build / name)

    def _built(self, file):
        entry = self._included.get(str(self._tree / file))
        if entry is None:
            return None
        words, flags = iter(shlex.split(entry["command"])[1:]), []
        for word in words:
            if word in _WITH_A_FILE:
                next(words)
            elif word.startswith(("-I", "-D", "-isystem", "-std", "-m")):
                flags.append(word)
                if word in ("-isystem", "-I", "-D"):
                    flags.append(next(words))
        return entry["file"], [*flags, *_headers()], None

    def of(self, file):
        """The syntax tree of a unit that compiles the file; None if nothing built does."""
        device = file.startswith("ascendc/") and "op_host" not in file and "op_api" not in file
        unit = _kernels(self._tree) if device else self._built(file)
        if unit is None:
            return None
        if str(unit[0]) not in self._kept:
            if len(self._kept) > 3:  # each may take half a gigabyte
                self._kept.clear()
            self._kept[str(unit[0])] = parsed(Path(unit[0]), *unit[1:])
        return self._kept[str(unit[0])]
