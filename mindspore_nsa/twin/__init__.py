"""The CPU twin of Ascend C: its library, its headers, and the flags that programs need.

The library holds a host implementation of the Ascend C kernel API, of the acl runtime and of the
aclnn functions of this project's Ascend operators. ``python -m mindspore_nsa.twin --cflags --libs``
prints what a compiler needs to build a program against it.
"""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_LIBRARY = "mindspore_nsa_twin"


def library():
    """Path of the twin's library.

    Returns:
        str.

    Raises:
        FileNotFoundError: If this installation does not have it.

    Examples:
        >>> from mindspore_nsa import twin
        >>> twin.library().endswith(".so")
        True
    """
    path = _FOLDER / f"lib{_LIBRARY}.so"
    if not path.exists():
        raise FileNotFoundError(
            f"the library of the Ascend twin is missing: {path}; build it with 'pip install .' or "
            "'make build'"
        )
    return str(path)


def include_dirs():
    """Folders with the twin's headers.

    Returns:
        list[str]: The folder that the headers' own includes start from, then the one with the
        headers named as in CANN (``acl/acl.h``, ``kernel_operator.h``, ``aclnnop/...``).

    Examples:
        >>> from mindspore_nsa import twin
        >>> len(twin.include_dirs())
        2
    """
    root = _FOLDER / "include"
    return [str(root), str(root / "ascendc" / "cpu_twin" / "include")]


def cflags():
    """Compiler flags for a program that includes the twin's headers.

    Returns:
        list[str].

    Examples:
        >>> from mindspore_nsa import twin
        >>> all(flag.startswith("-I") for flag in twin.cflags())
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
        >>> from mindspore_nsa import twin
        >>> "-lmindspore_nsa_twin" in twin.libs()
        True
    """
    folder = Path(library()).parent
    return [f"-L{folder}", f"-l{_LIBRARY}", f"-Wl,-rpath,{folder}"]
