"""The CPU twin of Ascend C: its library, its headers, and the flags that programs need.

The library holds a host implementation of the Ascend C kernel API, of the acl runtime and of what
aclnn functions are made from. ``python -m ascendc_twin run main.cpp`` compiles a program against it
and runs it; ``python -m ascendc_twin --cflags --libs`` prints what a compiler needs for that.
"""

import contextlib
import ctypes
import json
import numbers
import operator
import os
import sys
import warnings
from functools import cache
from pathlib import Path

from ._version import __version__

__all__ = [
    "__version__",
    "cflags",
    "clock",
    "costs",
    "include_dirs",
    "library",
    "libs",
    "machine",
    "operators",
]

# ASCENDC_TWIN_...; setup.py reads BUILD_DIR, the library most of the others.
VARIABLES = (
    *("AIC", "AIV", "AUTO_SYNC", "BUILD_DIR", "CALLED", "CARRY_UNINITIALISED", "CLOCK"),
    *("DOUBLES", "NOT_REPEATABLE", "SEED", "SOC", "TRACE"),
    *("WARN_BEYOND_TENSOR", "WARN_UNINITIALISED"),
)


def _warn_of_unknown_variables():
    """A misspelt name would leave a setting at its default without a word."""
    prefix = "ASCENDC_TWIN_"
    for name in sorted(os.environ):
        if name.startswith(prefix) and name.removeprefix(prefix) not in VARIABLES:
            warnings.warn(
                f"ascendc_twin reads no environment variable {name}; it reads {prefix} and one of "
                f"{', '.join(VARIABLES)}",
                stacklevel=2,
            )


_warn_of_unknown_variables()

_FOLDER = Path(__file__).resolve().parent
_LIBRARY = "ascendc_twin"


def _missing(what):
    """The error of a file of the built package that this copy does not have."""
    source = _FOLDER.parent
    if not all((source / name).exists() for name in ("setup.py", "CMakeLists.txt")):
        return f"{what} is missing; build it with 'pip install ./twin' in the clone"
    return (
        f"{what} has not been built in {source}, the source folder of ascendc_twin. Python finds "
        "this folder before an installed package where a program lies in it or is started in it "
        "with -m or -c: run the program from another folder, or build in place with "
        "'python setup.py build_ext --inplace'"
    )


def library():
    """Path of the twin's library.

    Returns:
        str.

    Raises:
        FileNotFoundError: If this installation does not have it.

    Examples:
        >>> import ascendc_twin
        >>> ascendc_twin.library().endswith(".so")
        True
    """
    path = _FOLDER / f"lib{_LIBRARY}.so"
    if not path.exists():
        raise FileNotFoundError(_missing("the library of the Ascend twin"))
    return str(path)


def include_dirs():
    """Folders with the twin's headers.

    Returns:
        list[str]: The folder that the headers' own includes start from, then the one with the
        headers named as in CANN (``acl/acl.h``, ``kernel_operator.h``, ``aclnnop/...``).

    Raises:
        FileNotFoundError: If this installation does not have them.

    Examples:
        >>> import ascendc_twin
        >>> len(ascendc_twin.include_dirs())
        2
    """
    root = _FOLDER / "include"
    folders = [root, root / "twin" / "include"]
    if not all(folder.is_dir() for folder in folders):
        raise FileNotFoundError(_missing("the folder of the Ascend twin's headers"))
    return [str(folder) for folder in folders]


def cflags():
    """Compiler flags for a program that includes the twin's headers.

    Returns:
        list[str].

    Examples:
        >>> import ascendc_twin
        >>> all(flag.startswith("-I") for flag in ascendc_twin.cflags())
        True
    """
    return [f"-I{folder}" for folder in include_dirs()]


def libs():
    """Linker flags for a program that calls the twin; it finds the library when it runs.

    Returns:
        list[str].

    Raises:
        FileNotFoundError: If this installation does not have the library.

    Examples:
        >>> import ascendc_twin
        >>> "-lascendc_twin" in ascendc_twin.libs()
        True
    """
    folder = Path(library()).parent
    return [f"-L{folder}", f"-l{_LIBRARY}", f"-Wl,-rpath,{folder}"]


@cache
def _opened():
    opened = ctypes.CDLL(library())
    opened.TwinOperators.restype = ctypes.c_char_p
    opened.TwinSetCores.restype = ctypes.c_bool
    opened.TwinSetSeed.argtypes = [ctypes.c_uint64]
    opened.TwinSetClock.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    opened.TwinSetClock.restype = ctypes.c_bool
    opened.TwinSetCost.argtypes = [ctypes.c_char_p, ctypes.c_double]
    opened.TwinSetCost.restype = ctypes.c_bool
    opened.TwinTimings.restype = ctypes.c_char_p
    opened.TwinCosts.restype = ctypes.c_char_p
    return opened


def operators():
    """Types of the operators in the libraries that this process has loaded.

    Returns:
        list[str].

    Examples:
        >>> import ascendc_twin
        >>> ascendc_twin.operators()
        []
    """
    return _opened().TwinOperators().decode().split()


@contextlib.contextmanager
def machine(vector_cores, cube_cores=None, seed=0):
    """Let the twin be a machine with other numbers of cores inside a ``with`` block.

    It acts on the whole process. Outside of it the twin has 48 vector cores and 24 cube cores, or
    what the environment variables ``ASCENDC_TWIN_AIV`` and ``ASCENDC_TWIN_AIC`` say.
    Blocks may be nested; the machine of the outer one comes back.

    Args:
        vector_cores (int): Vector cores (AIV), from 1 to 1024.
        cube_cores (int, optional): Cube cores (AIC). Default: ``None``, half of the vector cores.
        seed (int): Of the order in which the cores take turns, which no result depends on; from 0
            to 2^64 - 1.

    Raises:
        TypeError: If a number is not an int.
        ValueError: If there cannot be such a machine.

    Examples:
        >>> import ascendc_twin
        >>> with ascendc_twin.machine(vector_cores=7, seed=1):
        ...     pass
    """
    vector_cores = _integer("vector_cores", vector_cores, 1, 1024)
    if cube_cores is None:
        cube_cores = max(1, vector_cores // 2)
    chosen = (_integer("cube_cores", cube_cores, 1, 1024), vector_cores)
    _machines.append((*chosen, _integer("seed", seed, 0, 2**64 - 1)))
    try:
        _set_machine()
        yield
    finally:
        _machines.pop()
        _set_machine()


# The machines of the `machine` blocks that are open, the innermost last.
_machines = []


def _set_machine():
    """Make the twin the innermost machine, or the one that the environment says."""
    library = _opened()
    if _machines:
        *cores, seed = _machines[-1]
        library.TwinSetCores(*cores)
        library.TwinSetSeed(seed)
    else:
        library.TwinSetCores(0, 0)
        library.TwinResetSeed()


def _integer(name, value, least, most):
    """The value as an int, checked."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(f"machine: {name} must be an int, got {_shown(value)}")
    number = operator.index(value)
    if not least <= number <= most:
        raise ValueError(f"machine: {name} must be from {least} to {most}, got {number}")
    return number


def costs():
    """The figures that modelled time is made from.

    Returns:
        list[dict]: ``name``, ``value``, the ends ``low`` and ``high`` of what sources say, ``unit``
        and ``source``.

    Examples:
        >>> import ascendc_twin
        >>> next(row["value"] for row in ascendc_twin.costs() if row["name"] == "fix_to_gm")
        53.0
    """
    return json.loads(_opened().TwinCosts().decode())


@contextlib.contextmanager
def clock(chip="910B1", trace=None, **replaced):
    """Model the time of every kernel that the twin runs inside a ``with`` block.

    It acts on the whole process. The time is modelled, from published figures (:func:`costs`), and
    follows what the kernels' instructions wait for. Unless :func:`machine` or the environment says
    otherwise, tiling is told of the chip's cores.

    Args:
        chip (str): ``"910B1"``, ``"910B3"`` or ``"910B4"``. Default: ``"910B1"``.
        trace (Union[str, os.PathLike], optional): File for the trace of a kernel, in the Chrome
            trace format, which https://ui.perfetto.dev opens; of the second and later kernels with
            a number before its suffix. Default: ``None``.
        replaced (float): Costs that replace those of :func:`costs`, by name; not those of vector
            instructions, in cycles/repeat.

    Returns:
        A context manager. Its value is a function that lists the kernels timed so far: a dict for
        each with ``kernel``, ``microseconds``, ``cycles``, ``bound``, ``pipes``, ``critical_path``
        and, as text for people, ``table``.

    Raises:
        TypeError: If `chip` is not a str, `trace` not a path or a cost not a number.
        ValueError: If there is no such chip or cost, or if a cost is not finite or too small: what
            is counted in cycles or us is at least 0, `queue_depth` 1, the others are above 0. If
            `trace` is an empty path.

    Examples:
        >>> import ascendc_twin
        >>> with ascendc_twin.clock(chip="910B3", fix_to_gm=86) as timed:
        ...     pass  # launches of kernels
        >>> timed()
        []
    """
    file = b"" if trace is None else _path("trace", trace)
    if not isinstance(chip, str):
        raise TypeError(f"clock: chip must be a str, got {_shown(chip)}")
    if not _opened().TwinSetClock(chip.encode(errors="replace") or b"-", file):
        raise ValueError(f"clock: chip must be 910B1, 910B3 or 910B4, got {chip!r}")
    try:
        for name, value in replaced.items():
            if not _opened().TwinSetCost(name.encode(), _cost(name, value)):
                raise ValueError(f"clock: there is no cost {name!r}; costs() lists them")
        launches = None
        yield lambda: _timings() if launches is None else launches
        launches = _timings()
    finally:
        _opened().TwinSetClock(b"", b"")


def _shown(value):
    """A wrong argument as messages show it."""
    return f"{ascii(value)[:80]} ({type(value).__name__})"


def _path(name, value):
    """The bytes of a path, checked."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise TypeError(f"clock: {name} must be a str or another path, got {_shown(value)}")
    if not path or "\0" in path:
        raise ValueError(f"clock: {name} must be the path of a file, got {ascii(path)[:80]}")
    return os.fsencode(path)


# The least value of a cost by its unit; one of another unit divides or multiplies.
_LEAST = {"cycles": 0, "us": 0, "instructions": 1}


def _cost(name, value):
    """The value of a cost as a float, checked."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"clock: {name} must be a number, got {_shown(value)}")
    units = {row["name"]: row["unit"] for row in costs()}
    least = _LEAST.get(units.get(name))
    if not (value > 0 if least is None else value >= least) or value > sys.float_info.max:
        bound = "above 0" if least is None else f"at least {least}"
        raise ValueError(f"clock: {name} must be finite and {bound}, got {ascii(value)[:80]}")
    return float(value)


def _timings():
    return json.loads(_opened().TwinTimings().decode())
