"""The CPU twin of Ascend C with this project's Ascend operators.

The twin is the package ``ascendc_twin``; here are the flags of programs that call the operators'
aclnn functions, too: ``python -m mindspore_nsa.twin --cflags --libs``. ``machine``, ``clock`` and
``costs`` are those of ``ascendc_twin``.
"""

import ctypes
from functools import cache
from pathlib import Path

from .. import _ascend_twin
from .._native_library import how_to_get

_SHARED = ("clock", "costs", "machine")
__all__ = [*_SHARED, "cflags", "include_dirs", "library", "libs", "operators"]


def library() -> str:
    """Path of the library with the operators' aclnn functions, which needs that of the twin.

    Returns:
        str.

    Raises:
        ImportError: If the package ascendc_twin is missing, or another version.
        FileNotFoundError: If this installation does not have the library.

    Examples:
        >>> from mindspore_nsa import twin
        >>> twin.library().endswith(".so")
        True
    """
    # Whoever opens it would not find the twin's elsewhere.
    ctypes.CDLL(_ascend_twin.package().library())
    return _ascend_twin.library()


def include_dirs() -> list[str]:
    """Folders with the headers of the twin and of the operators.

    Returns:
        list[str]: Those of ``ascendc_twin.include_dirs()``, then the one with the headers of the
        operators' functions (``aclnnop/...``).

    Raises:
        ImportError: If the package ascendc_twin is missing, or another version.
        FileNotFoundError: If this installation does not have them.

    Examples:
        >>> from mindspore_nsa import twin
        >>> len(twin.include_dirs())
        3
    """
    if not _ascend_twin.HEADERS.is_dir():
        raise FileNotFoundError(how_to_get("the folder of the Ascend operators' headers"))
    return [*_ascend_twin.package().include_dirs(), str(_ascend_twin.HEADERS)]


def cflags() -> list[str]:
    """Compiler flags for a program that includes the headers of the twin or of the operators.

    Returns:
        list[str].

    Examples:
        >>> from mindspore_nsa import twin
        >>> all(flag.startswith("-I") for flag in twin.cflags())
        True
    """
    return [f"-I{folder}" for folder in include_dirs()]


def libs() -> list[str]:
    """Linker flags for a program that calls the operators; it finds the libraries when it runs.

    Returns:
        list[str].

    Raises:
        ImportError: If the package ascendc_twin is missing, or another version.
        FileNotFoundError: If this installation does not have the library.

    Examples:
        >>> from mindspore_nsa import twin
        >>> "-lmindspore_nsa_twin" in twin.libs()
        True
    """
    folder = Path(_ascend_twin.library()).parent
    ours = [f"-L{folder}", "-lmindspore_nsa_twin", f"-Wl,-rpath,{folder}"]
    return ours + _ascend_twin.package().libs()


@cache
def _opened() -> ctypes.CDLL:
    return ctypes.CDLL(library())


def operators() -> list[str]:
    """Types of the Ascend operators that the twin has.

    Returns:
        list[str].

    Examples:
        >>> from mindspore_nsa import twin
        >>> "MsnsaCompress" in twin.operators()
        True
    """
    _opened()
    return _ascend_twin.package().operators()


def __getattr__(name: str) -> object:
    if name not in _SHARED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_ascend_twin.package(), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_SHARED})
