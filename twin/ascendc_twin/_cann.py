"""A CANN made of the twin, in which MindSpore's Ascend backend runs without a device.

What does not depend on MindSpore is built with the package: the acl runtime, CANN's own aclnn
functions and aclop operators, the few classes of the graph engine, HCCL's collectives. All other
names that the installed MindSpore is linked against become traps, so that its libraries load, and a
call of one ends the process with the name. Together they are a folder in the user's cache, laid out
as CANN's.
"""

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

from . import _elf, include_dirs, library

_BUILT = ("libascendc_twin_ascendcl.so", "libopapi.so", "libhccl.so")
# MindSpore opens these by name, beside the libraries that its own need.
_OPENED = ("libacl_op_compiler.so", "libacl_tdt_channel.so", "libmsprofiler.so")
# Functions that MindSpore looks up by name when it starts: its libraries hold the names as texts.
_LOOKED_UP = rb"(?:acl(?:rt|tdt|mdl|op|prof)?|Hccl)[A-Z]\w+"
_TRAPS = "libascendc_twin_traps.so"
# The version that MindSpore is told of, and what it looks up for it.
_VERSION = "9.1.0"
_TBE = "opp/built-in/op_impl/ai_core/tbe"


class Unavailable(Exception):
    """Why there cannot be a stand-in here, in one line."""


def _mindspore():
    found = importlib.util.find_spec("mindspore")
    if found is None or not found.submodule_search_locations:
        raise Unavailable("MindSpore is not installed: python -m pip install mindspore")
    folder = Path(found.submodule_search_locations[0]) / "lib"
    if not (folder / "plugin" / "libmindspore_ascend.so.2").exists():
        raise Unavailable(
            f"the MindSpore in {folder.parent} has no Ascend plugin "
            "(lib/plugin/libmindspore_ascend.so.2); wheels from PyPI have it"
        )
    return folder


def _plugin(folder):
    """({path: library} that MindSpore loads for Ascend, names of those that it lacks)."""
    found = {path.name: path for path in folder.rglob("*.so*") if "gpu" not in str(path.parent)}
    waiting = [
        "libmindspore_ascend.so.2",
        "libmindspore_ops_ascend.so",
        "libmindspore_graph_ir.so",
        "libd_collective.so",
        "libhccl_plugin.so",
    ]
    loaded, missing = {}, set()
    while waiting:
        name = waiting.pop()
        if name in loaded or name in missing:
            continue
        if name not in found:
            missing.add(name)
            continue
        loaded[name] = _elf.Library(found[name])
        waiting += loaded[name].needed
    # The system has the others.
    return loaded, {name for name in missing if not _loads(name)}


def _loads(name):
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _traps(loaded, built):
    """{name: text} of what the plugin's libraries want and nothing has."""
    wanted, defined = set(), set()
    for one in loaded.values():
        names = one.names()
        wanted |= names[0] | one.texts(_LOOKED_UP)
        defined |= names[1]
    for path in built:
        defined |= _elf.Library(path).names()[1]
    system = [ctypes.CDLL(None)]
    for name in ("libstdc++.so.6", "libm.so.6", "libgomp.so.1", "libgcc_s.so.1", "libz.so.1"):
        if _loads(name):
            system.append(ctypes.CDLL(name))
    return {
        name: f"twin error: MindSpore asked CANN for {_elf.readable(name)}, "
        "which the twin does not have"
        for name in wanted - defined
        if not any(hasattr(one, name) for one in system)
    }


def _write(root, mindspore):
    """Fill an empty folder."""
    package = Path(library()).parent
    built = [package / "cann" / name for name in _BUILT]
    lib64 = root / "latest" / "lib64"
    lib64.mkdir(parents=True)
    loaded, missing = _plugin(mindspore)
    for path in (*built, Path(library())):
        (lib64 / path.name).symlink_to(path)
    traps = _traps(loaded, [*built, Path(library())])
    _elf.write_library(lib64 / _TRAPS, _TRAPS, traps)
    for name in sorted((missing | set(_OPENED)) - set(_BUILT)):
        _elf.write_library(lib64 / name, name, needed=[*_BUILT, _TRAPS])

    headers, cann_headers = (Path(folder) for folder in include_dirs())
    include = root / "latest" / "include"
    include.mkdir()
    for path in (headers / "twin", *cann_headers.iterdir()):
        (include / path.name).symlink_to(path)
    (root / "latest" / "compiler").mkdir()
    (root / "latest" / "compiler" / "version.info").write_text(f"Version={_VERSION}\n")
    # MindSpore warns where PYTHONPATH does not name the first of these folders, and looks for
    # descriptions of CANN's operators in the other, which holds none.
    tbe = root / "latest" / _TBE
    (tbe / "config" / "ascend910b").mkdir(parents=True)
    # MindSpore's communication.init() imports it, for its version only.
    (tbe / "hccl").mkdir()
    (tbe / "hccl" / "__init__.py").touch()
    (tbe / "hccl" / "sys_version.py").write_text(f'__sys_version__ = "{_VERSION}"\n')


def root():
    """The folder of the stand-in for the installed MindSpore, made where it is not there yet.

    Returns:
        Path.

    Raises:
        Unavailable: If there cannot be one.
    """
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise Unavailable("MindSpore's Ascend backend runs on the twin on x86-64 Linux only")
    mindspore = _mindspore()
    package = Path(library()).parent
    missing = [name for name in _BUILT if not (package / "cann" / name).exists()]
    if missing:
        raise Unavailable(f"this installation of ascendc_twin lacks {', '.join(missing)}")
    key = hashlib.sha256()
    for path in (
        mindspore / "plugin" / "libmindspore_ascend.so.2",
        Path(library()),
        Path(__file__),
        Path(_elf.__file__),
        *(package / "cann" / name for name in _BUILT),
    ):
        state = path.stat()
        key.update(f"{path.resolve()} {state.st_size} {state.st_mtime_ns}\n".encode())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ascendc_twin"
    version = importlib.metadata.version("mindspore")
    folder = cache / f"ascend-{version}-{key.hexdigest()[:16]}"
    # MindSpore cuts the path at its first "opp", and compiles with it in an unquoted command.
    if "opp" in str(folder) or any(character.isspace() for character in str(folder)):
        raise Unavailable(
            f'the cache folder {cache} must have neither a space nor "opp" in its path, which '
            "MindSpore cannot read; set XDG_CACHE_HOME"
        )
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=cache))
        try:
            _write(part, mindspore)
            os.rename(part, folder)
        except OSError:
            # Another process may have been faster.
            shutil.rmtree(part, ignore_errors=True)
            if not folder.exists():
                raise
    return folder


def environment(packages=()):
    """The environment variables of a process whose CANN is the twin.

    Args:
        packages (Sequence[Union[str, os.PathLike]]): Folders of packages of operators, laid out as
            CANN installs them and compiled against the twin; the first has precedence.

    Returns:
        dict[str, str].
    """
    latest = root() / "latest"
    changed = dict(os.environ)

    def prepend(name, *folders):
        rest = [changed[name]] if changed.get(name) else []
        changed[name] = ":".join([*map(str, folders), *rest])

    changed["ASCEND_HOME_PATH"] = str(latest)
    changed["ASCEND_OPP_PATH"] = str(latest / "opp")
    if packages:
        prepend("ASCEND_CUSTOM_OPP_PATH", *packages)
    prepend("LD_LIBRARY_PATH", latest / "lib64")
    prepend("PYTHONPATH", latest / _TBE)
    return changed


def run(arguments, packages=()):
    """Become the Python program of these arguments; does not return.

    Args:
        arguments (list[str]): A script or ``-m module``, and its own arguments.
        packages: See `environment`.
    """
    changed = environment(packages)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *arguments], changed)
