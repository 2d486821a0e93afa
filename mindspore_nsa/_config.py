"""Which kernels the operators use, and what this installation consists of."""

import contextlib
import os
import platform
from importlib import metadata

from ._version import __version__

TARGETS = ("cpu", "ascend", "ascend_twin")
_AVAILABLE = ("cpu",)
# The target that a MindSpore device_target implies.
_DEFAULTS = {"CPU": "cpu", "Ascend": "ascend"}


def _checked(name, source):
    if not isinstance(name, str):
        raise TypeError(
            f"{source}: name must be a str, got {ascii(name)[:80]} ({type(name).__name__})"
        )
    if name not in TARGETS:
        raise ValueError(f"{source}: name must be one of {', '.join(TARGETS)}, got {ascii(name)}")
    if name not in _AVAILABLE:
        raise ValueError(
            f"{source}: target {name!r} is not available in this build, which has the CPU kernels "
            f"only; available: {', '.join(_AVAILABLE)}"
        )
    return name


class _State:
    """The target in force: None means the one that device_target implies."""

    name = None


if os.environ.get("MINDSPORE_NSA_TARGET"):
    _State.name = _checked(os.environ["MINDSPORE_NSA_TARGET"], "MINDSPORE_NSA_TARGET")


def set_target(name):
    """Choose the kernels that every operator of this process uses from now on.

    The choice is captured when an operator is called (PyNative mode) or when a graph is compiled;
    a compiled graph keeps the target it was compiled with. The environment variable
    ``MINDSPORE_NSA_TARGET`` sets it before the first call.

    Args:
        name (str): ``"cpu"``, the native CPU kernels; ``"ascend"`` and ``"ascend_twin"`` are names
            of targets that this build does not have.

    Raises:
        TypeError: If `name` is not a str.
        ValueError: If `name` is not a target, or not one of this build.

    Examples:
        >>> import mindspore_nsa
        >>> mindspore_nsa.set_target("cpu")
    """
    _State.name = _checked(name, "set_target")


@contextlib.contextmanager
def target(name):
    """Use a target inside a ``with`` block; the one before it comes back afterwards.

    Like `set_target` it acts on the whole process, because MindSpore compiles graphs in threads
    that know nothing of the block.

    Args:
        name (str): See `set_target`.

    Examples:
        >>> import mindspore_nsa
        >>> with mindspore_nsa.target("cpu"):
        ...     pass
    """
    before = _State.name
    _State.name = _checked(name, "target")
    try:
        yield
    finally:
        _State.name = before


def requested_target():
    """The target that was set, or None."""
    return _State.name


def resolve_target(requested, device_target):
    """The target of a call: the requested one, else what MindSpore's device_target implies."""
    if device_target not in _DEFAULTS:
        raise RuntimeError(
            f"mindspore_nsa runs with device_target CPU or Ascend, got {device_target!r}"
        )
    name = requested or _DEFAULTS[device_target]
    if name not in _AVAILABLE:
        raise RuntimeError(
            f"mindspore_nsa: device_target {device_target} needs the target {name!r}, which is not "
            "available in this build (it has the CPU kernels only)"
        )
    if name == "cpu" and device_target != "CPU":
        raise RuntimeError(
            f"mindspore_nsa: target 'cpu' needs device_target CPU, got {device_target!r}"
        )
    return name


def show_config():
    """Print version, target, instruction set, threads and the MindSpore found.

    Examples:
        >>> import mindspore_nsa
        >>> mindspore_nsa.show_config()  # doctest: +ELLIPSIS
        mindspore_nsa ...
    """
    from . import _native

    try:
        mindspore = metadata.version("mindspore")
    except metadata.PackageNotFoundError:
        mindspore = "not installed"
    lines = (
        ("mindspore_nsa", __version__),
        ("target", _State.name or "by device_target (CPU: cpu)"),
        ("instruction set", f"{_native.isa()} (available: {', '.join(_native.available_isas())})"),
        ("threads", _native.num_threads()),
        ("mindspore", mindspore),
        ("python", platform.python_version()),
        ("native library", _native.__file__),
    )
    for name, value in lines:
        print(f"{name:<16}{value}")
