"""Compiles the twin's device side once and kernels against it, with g++ alone."""

import fcntl
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TWIN = ROOT / "twin"
BUILD = ROOT / "build" / "twin"
PARTS = ("clock", "device", "vector", "adv", "cube")
COMPILER = os.environ.get("CXX", "g++")
FLAGS = (
    *("-std=c++17", "-O2", "-g1", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"),
    *("-Wall", "-Wextra", "-Werror"),
    *("-DASCENDC_CPU_DEBUG=1", f"-I{ROOT}", f"-I{TWIN / 'include'}"),
    # Errors name files as the repository does, wherever it lies.
    f"-fmacro-prefix-map={ROOT}/=",
)
# Kernels: their time is the twin's, and a compilation counts.
KERNEL_FLAGS = tuple("-O1" if flag == "-O2" else flag for flag in FLAGS)


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


def compiled(source, flags, folder):
    """Path of the object of a source in a folder, up to date."""
    name = "_".join(Path(source).relative_to(ROOT).parts)
    target = folder / f"{name}.o"
    depends = target.with_suffix(".d")
    stamp = target.with_suffix(".cmd")
    command = [COMPILER, *flags, "-MMD", "-MF", depends, "-c", source, "-o", target]
    text = " ".join(map(str, command))
    if _fresh(target, depends, stamp) and stamp.read_text() == text:
        return target
    _run(command)
    stamp.write_text(text)
    return target


def _objects(sources, flags, folder):
    workers = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda source: compiled(source, flags, folder), sources))


def _library():
    sources = sorted(path for part in PARTS for path in (TWIN / part).glob("*.cc"))
    objects = _objects(sources, FLAGS, BUILD)
    archive = BUILD / "libtwin_device.a"
    members = " ".join(path.name for path in objects)
    stamp = BUILD / "libtwin_device.members"
    newest = max(path.stat().st_mtime for path in objects)
    if (
        archive.exists()
        and archive.stat().st_mtime >= newest
        and stamp.exists()
        and stamp.read_text() == members
    ):
        return archive
    archive.unlink(missing_ok=True)
    _run(["ar", "rcs", archive, *objects])
    stamp.write_text(members)
    return archive


class _Lock:
    def __enter__(self):
        BUILD.mkdir(parents=True, exist_ok=True)
        self._file = open(BUILD / ".lock", "w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        self._file.close()


def device_library():
    """Path of the static library of the device side, up to date."""
    with _Lock():
        return _library()


def shared(*sources, name, flags=()):
    """Path of a shared library of these kernel sources, up to date."""
    return _link(sources, name + ".so", (*KERNEL_FLAGS, *flags), ("-shared", "-Wl,-z,defs"))


def program(*sources, name, flags=()):
    """Path of a program of these sources, up to date."""
    return _link(sources, name, (*KERNEL_FLAGS, *flags), ())


def objects(*sources, name):
    """Paths of the objects that a shared library of that name is made of, up to date."""
    with _Lock():
        folder = BUILD / f"{name}.objects"
        folder.mkdir(exist_ok=True)
        return _objects(sources, KERNEL_FLAGS, folder)


def linked(objects, target):
    """The target, a shared library of these objects and the device side."""
    _run([COMPILER, "-shared", "-Wl,-z,defs", "-o", target, *objects, device_library()])
    return target


def _link(sources, name, flags, link_flags):
    with _Lock():
        archive = _library()
        folder = BUILD / f"{Path(name).stem}.objects"
        folder.mkdir(exist_ok=True)
        objects = _objects(sources, flags, folder)
        target = BUILD / name
        newest = max(path.stat().st_mtime for path in (archive, *objects))
        if not target.exists() or target.stat().st_mtime < newest:
            # A new file: a process may have the old one loaded.
            fresh = target.with_suffix(".new")
            _run([COMPILER, *link_flags, "-o", fresh, *objects, archive])
            os.replace(fresh, target)
        return target


def unexported(*sources, name):
    """What kernels need that a shared library with hidden symbols does not give them."""
    with _Lock():
        library = BUILD / "libtwin_device.so"
        whole = ("-Wl,--whole-archive", _library(), "-Wl,--no-whole-archive")
        _run([COMPILER, "-shared", "-o", library, *whole, "-Wl,-z,defs"])
        folder = BUILD / f"{name}.objects"
        folder.mkdir(exist_ok=True)
        objects = _objects(sources, KERNEL_FLAGS, folder)
        target = BUILD / f"{name}.so"
        command = [COMPILER, "-shared", "-o", target, *objects, library, "-Wl,-z,defs"]
        done = subprocess.run(command, capture_output=True, text=True)
    missing = set(re.findall(r"undefined reference to `(.*)'", done.stderr))
    assert missing or done.returncode == 0, done.stderr
    return sorted(missing)


def refused(text, flags=()):
    """What the compiler says about a source text that it refuses."""
    done = subprocess.run(
        [COMPILER, *KERNEL_FLAGS, *flags, "-fsyntax-only", "-x", "c++", "-"],
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0, "the compiler accepts what it should refuse"
    return done.stderr


def accepted(source, flags=()):
    """Compiles a source file without making anything of it; fails where the compiler refuses."""
    _run([COMPILER, *KERNEL_FLAGS, *flags, "-fsyntax-only", source])
