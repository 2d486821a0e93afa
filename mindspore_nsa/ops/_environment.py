"""Check, with an error in words, what the operators need of MindSpore."""

import re
import warnings
from pathlib import Path
from typing import Any

from .._native_library import native

MINDSPORE_TESTED = ((2, 7, 1), (2, 10))


def release(version: str) -> tuple[Any, ...]:
    """The leading numbers of a version string."""
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


# binding/custom_extra.cc calls the virtual functions of MindSpore's AotExtra by their places, up to
# the one that reads a text.
CUSTOM_CALLS = (
    ("", "~AotExtra"),
    ("bool", "HasAttr"),
    ("bool", "GetAttrBool"),
    ("int64_t", "GetAttrInt"),
    ("float", "GetAttrFloat"),
    ("std::string", "GetAttrStr"),
)


def custom_calls(text: str) -> tuple[Any, ...]:
    """Type and name of the virtual functions of AotExtra in a header's text, in order."""
    found = re.search(r"^class AotExtra \{(.*?)^\};", text, re.MULTILINE | re.DOTALL)
    pattern = r"virtual ([\w:<> ]*?)\s*(~?\w+)\("
    return tuple(re.findall(pattern, found[1])) if found else ()


def _check_custom(folder: Any, version: str) -> None:
    """Whether a MindSpore that was never tried has the Custom that the native library knows.

    A function in another place would be called with the wrong arguments, which ends the process.
    """
    headers = sorted((folder / "include").rglob("custom_aot_extra.h"))
    found = custom_calls(headers[0].read_text()) if headers else ()
    if found[: len(CUSTOM_CALLS)] == CUSTOM_CALLS:
        return
    said = ", ".join(name for _, name in found[: len(CUSTOM_CALLS)]) or "no such class"
    raise ImportError(
        f"MindSpore {version} has another interface of custom operators than mindspore_nsa was "
        f"built for: AotExtra must begin with {', '.join(name for _, name in CUSTOM_CALLS)}, got "
        f"{said} in {headers[0] if headers else folder / 'include'}: install a MindSpore from "
        "2.7.1 to 2.10"
    )


def check_environment() -> None:
    """Raise an error where the operators cannot work, warn where they were never tried."""
    import numpy

    if release(numpy.__version__) >= (2,):
        raise ImportError(
            f"mindspore_nsa needs numpy<2, because MindSpore does, got numpy {numpy.__version__}: "
            "pip install 'numpy<2'"
        )
    try:
        import mindspore
    except ModuleNotFoundError as error:
        if error.name != "mindspore":
            raise
        raise ImportError(
            "the operators of mindspore_nsa need MindSpore: pip install 'mindspore>=2.7.1,<3'"
        ) from error
    lowest, highest = MINDSPORE_TESTED
    version = release(mindspore.__version__)
    if version[:2] > highest:
        _check_custom(Path(mindspore.__file__).parent, mindspore.__version__)
    if version < lowest or version[:2] > highest:
        warnings.warn(
            f"mindspore_nsa is made for MindSpore 2.7.1 to 2.10, got {mindspore.__version__}",
            stacklevel=4,
        )
    # Chooses the instruction set: MINDSPORE_NSA_ISA is checked here and not inside a first kernel,
    # whose error would come at some later synchronisation.
    native().isa()
