"""Compiles kernels against the twin of the package under test, with g++ alone."""

import fcntl
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ascendc_twin

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "twin"
COMPILER = os.environ.get("CXX", "g++")
# -Og: a kernel's time is the twin's, and g++ is done sooner than with -O1. The headers are the
# library's own; those of the source tree may be newer.
FLAGS = (
    *("-std=c++17", "-Og", "-g1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"),
    *("-Wall", "-Wextra", "-Werror"),
    *("-DASCENDC_CPU_DEBUG=1", *ascendc_twin.cflags(), f"-I{ROOT}"),
    # Errors name files as the repository does, wherever it lies.
    f"-fmacro-prefix-map={ROOT}/=",
)


def _run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done


def _fresh(target, depends, stamp):
    """Whether the target is newer than all it was made from, with the same command."""
    if not (target.exists() and depends.exists() and stamp.exists()):
        return False
    made = target.stat().st_mtime
    names = depends.read_text().replace("\\\n", " ").split()[1:]
    return all(os.path.exists(name) and os.path.getmtime(name) <= made for name in names)


def compiled(source, flags, folder, suffix=".o"):
    """Path of the object of a source in a folder, up to date; a compiled header lies beside it."""
    source = Path(source)
    name = source.name if suffix == ".gch" else "_".join(source.relative_to(ROOT).parts)
    target = folder / f"{name}{suffix}"
    depends = target.with_suffix(".d")
    stamp = target.with_suffix(".cmd")
    command = [COMPILER, *flags, "-MMD", "-MF", depends, "-c", source, "-o", target]
    text = " ".join(map(str, command))
    if _fresh(target, depends, stamp) and stamp.read_text() == text:
        return target
    _run(command)
    stamp.write_text(text)
    return target


# The headers of kernels take g++ a third of their time.
KERNEL_HEADERS = """#include <algorithm>
#include <cstring>
#include <string>
#include <vector>
#include "kernel_operator.h"
"""


def _with_headers():
    """Options that put the headers of kernels before a source, compiled once.

    Flags with which they would be others make g++ read them as text.
    """
    header = BUILD / "kernel_headers" / "headers.h"
    if not header.exists() or header.read_text() != KERNEL_HEADERS:
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(KERNEL_HEADERS)
    compiled(header, (*FLAGS, "-x", "c++-header"), header.parent, ".gch")
    return ("-include", str(header), "-fpch-deps")


def _defines_first(source):
    """Whether macros stand before the headers, which are others with them: a cube core's, say."""
    return "#define" in Path(source).read_text().partition("#include")[0]


def _objects(sources, flags, folder, headers=()):
    def one(source):
        return compiled(source, (*flags, *(() if _defines_first(source) else headers)), folder)

    workers = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, sources))


class _Lock:
    def __enter__(self):
        BUILD.mkdir(parents=True, exist_ok=True)
        self._file = open(BUILD / ".lock", "w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        self._file.close()


def shared(*sources, name, flags=()):
    """Path of a shared library of these kernel sources, up to date."""
    flags = (*FLAGS, *flags)
    return _link(sources, name + ".so", flags, "-shared", "-Wl,-z,defs", headers=True)


def program(*sources, name, flags=()):
    """Path of a program of these sources, up to date."""
    return _link(sources, name, (*FLAGS, *flags))


def objects(*sources, name):
    """Paths of the objects that a shared library of that name is made of, up to date."""
    with _Lock():
        folder = BUILD / f"{name}.objects"
        folder.mkdir(exist_ok=True)
        return _objects(sources, FLAGS, folder, _with_headers())


def linked(objects, target):
    """The target, a shared library of these objects."""
    _run([COMPILER, "-shared", "-Wl,-z,defs", "-o", target, *objects, *ascendc_twin.libs()])
    return target


def _link(sources, name, flags, *link_flags, headers=False):
    with _Lock():
        folder = BUILD / f"{Path(name).stem}.objects"
        folder.mkdir(exist_ok=True)
        objects = _objects(sources, flags, folder, _with_headers() if headers else ())
        target = BUILD / name
        newest = max(os.path.getmtime(path) for path in (ascendc_twin.library(), *objects))
        if not target.exists() or target.stat().st_mtime < newest:
            # A new file: a process may have the old one loaded.
            fresh = target.with_suffix(".new")
            _run([COMPILER, *link_flags, "-o", fresh, *objects, *ascendc_twin.libs()])
            os.replace(fresh, target)
        return target


def refused(text, flags=()):
    """Gives the compiler's words about a source text that it refuses."""
    done = subprocess.run(
        [COMPILER, *FLAGS, *flags, "-fsyntax-only", "-x", "c++", "-"],
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0, "the compiler accepts what it should refuse"
    return done.stderr


def accepted(source, flags=()):
    """Compiles a source file without making anything of it; fails where the compiler refuses."""
    _run([COMPILER, *FLAGS, *flags, "-fsyntax-only", source])
