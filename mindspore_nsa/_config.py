"""Which kernels the operators use, and what this installation consists of."""

import contextlib
import os
import platform
import sys
import warnings
from collections.abc import Iterator
from importlib import metadata

from . import _ascend_twin
from ._native_library import native
from ._version import __version__, commit

# Each target of the operators needs this MindSpore device_target.
_DEVICES = {"cpu": "CPU", "ascend": "Ascend", "ascend_twin": "CPU"}
TARGETS = tuple(_DEVICES)
# The target that a device_target implies.
_DEFAULTS = {"CPU": "cpu", "Ascend": "ascend"}


def _checked(name: object, source: str) -> str:
    if not isinstance(name, str):
        raise TypeError(
            f"{source}: name must be a str, got {ascii(name)[:80]} ({type(name).__name__})"
        )
    if name not in TARGETS:
        raise ValueError(f"{source}: name must be one of {', '.join(TARGETS)}, got {ascii(name)}")
    return name


class _State:
    """The target in force: None means the one that device_target implies.

    `compiled` are the targets that graphs were compiled for, `warned` whether it was said that they
    keep them.
    """

    name: str | None = None
    compiled: set[str] = set()
    warned = False


VARIABLES = ("MINDSPORE_NSA_ISA", "MINDSPORE_NSA_TARGET")


def _warn_of_unknown_variables() -> None:
    """A misspelt name would leave a setting at its default without a word."""
    for name in sorted(os.environ):
        if name.startswith("MINDSPORE_NSA_") and name not in VARIABLES:
            warnings.warn(
                f"mindspore_nsa reads no environment variable {name}; it reads "
                f"{' and '.join(VARIABLES)}",
                stacklevel=2,
            )


_warn_of_unknown_variables()
if os.environ.get("MINDSPORE_NSA_TARGET"):
    _State.name = _checked(os.environ["MINDSPORE_NSA_TARGET"], "MINDSPORE_NSA_TARGET")


def _choose(name: str | None, source: str) -> None:
    """Make a target the one in force; the first time that a compiled graph keeps another, say so.

    None is what device_target implies.
    """
    chosen = None if name is None else _checked(name, source)
    others = sorted(_State.compiled.difference({chosen}))
    if chosen is not None and chosen != _State.name and others and not _State.warned:
        _State.warned = True
        warnings.warn(
            f"{source}: graphs that were compiled for target {others[0]!r} keep it: "
            f"compile_cache.clear() of the Cell that was called, another Cell or another "
            f"mindspore.jit makes one for {chosen!r}",
            stacklevel=3 if source == "set_target" else 4,
        )
    _State.name = chosen


def graph_compiled(name: str) -> None:
    """A graph has been compiled for a target."""
    _State.compiled.add(name)


def set_target(name: str | None) -> None:
    """Choose the kernels that every operator of this process uses from now on.

    The choice is captured when an operator is called (PyNative mode) or when a graph is compiled;
    a compiled graph keeps the target it was compiled with, which a warning says once. Until the
    first call of this function the environment variable ``MINDSPORE_NSA_TARGET`` says the target.

    Args:
        name (Union[str, None]): ``"cpu"``, the native CPU kernels; ``"ascend"``, the operators that
            ``make ascend`` builds for CANN, on an Ascend device; ``"ascend_twin"``, the same
            kernels executed on a CPU, slowly and with every access checked. ``None``: what
            MindSpore's device_target implies, as before any call.

    Raises:
        TypeError: If `name` is neither a str nor ``None``.
        ValueError: If `name` is not a target.

    Examples:
        >>> import mindspore_nsa
        >>> mindspore_nsa.set_target("cpu")
    """
    _choose(name, "set_target")


@contextlib.contextmanager
def target(name: str | None) -> Iterator[None]:
    """Use a target inside a ``with`` block; the one before it comes back afterwards.

    Like `set_target` it acts on the whole process, because MindSpore compiles graphs in threads
    that know nothing of the block.

    Args:
        name (Union[str, None]): See `set_target`.

    Examples:
        >>> import mindspore_nsa
        >>> with mindspore_nsa.target("cpu"):
        ...     pass
    """
    before = _State.name
    _choose(name, "target")
    try:
        yield
    finally:
        _State.name = before


def requested_target() -> str | None:
    """The target that was set, or None."""
    return _State.name


def resolve_target(requested: str | None, device_target: str) -> str:
    """The target of a call: the requested one, else what MindSpore's device_target implies."""
    if device_target not in _DEFAULTS:
        raise RuntimeError(
            f"mindspore_nsa runs with device_target CPU or Ascend, got {device_target!r}"
        )
    name = requested or _DEFAULTS[device_target]
    if _DEVICES[name] != device_target:
        raise RuntimeError(
            f"mindspore_nsa: target {name!r} needs device_target {_DEVICES[name]}, "
            f"got {device_target!r}"
        )
    if name == "ascend_twin":
        _ascend_twin.load()
    return name


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """The processor's name and how many of them this process may use."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith("model name")]
    except OSError:
        lines = []
    name = lines[0].partition(":")[2].strip() if lines else platform.machine()
    return f"{name}; this process may use {len(os.sched_getaffinity(0))}"


def _environment() -> str:
    """The environment variables in force that change what the operators do."""
    chosen = [
        f"{name}={ascii(value)[1:-1]}"
        for name, value in sorted(os.environ.items())
        if name.startswith(("MINDSPORE_NSA_", "ASCENDC_TWIN_", "OMP_", "KMP_", "GOMP_"))
    ]
    return " ".join(chosen) or "nothing set"


def _target_in_force() -> str:
    """The target that a call would have now, and why."""
    if _State.name is not None:
        return _State.name
    mindspore = sys.modules.get("mindspore")
    if mindspore is None:
        return "by device_target (CPU: cpu, Ascend: ascend), which is known with MindSpore loaded"
    device = mindspore.context.get_context("device_target")
    return f"{_DEFAULTS.get(device, 'none')}, by device_target {device}"


def show_config() -> None:
    """Print what a report of a fault needs: versions, target, processor, threads, environment.

    ``python -m mindspore_nsa`` prints the same.

    Raises:
        ImportError: If the native library is missing.

    Examples:
        >>> import mindspore_nsa
        >>> mindspore_nsa.show_config()  # doctest: +ELLIPSIS
        mindspore_nsa ...
    """
    from . import _ascend_package

    _native = native()
    try:
        twin = _ascend_twin.package().library()
    except (FileNotFoundError, ImportError) as error:
        twin = str(error)
    lines = (
        ("mindspore_nsa", f"{__version__}, commit {commit()}"),
        ("target", _target_in_force()),
        ("instruction set", f"{_native.isa()} (available: {', '.join(_native.available_isas())})"),
        ("threads", _native.num_threads()),
        ("processor", _processor()),
        ("mindspore", _version_of("mindspore")),
        ("numpy", _version_of("numpy")),
        ("python", platform.python_version()),
        ("system", f"{platform.platform()}, {' '.join(platform.libc_ver())}"),
        ("environment", _environment()),
        ("native library", _native.__file__),
        ("ascendc_twin", twin),
        ("Ascend package", _ascend_package.described()),
    )
    for name, value in lines:
        print(f"{name:<16}{value}")
