"""The native libraries, or words for where they are missing."""

from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).resolve().parent


def how_to_get(what: str) -> str:
    """The error of a library or folder of the built package that this copy does not have."""
    source = _FOLDER.parent
    if not all((source / name).exists() for name in ("setup.py", "CMakeLists.txt")):
        return f"{what} is missing; build it with 'pip install .' or 'make build'"
    return (
        f"{what} has not been built in {source}, the source folder of mindspore_nsa. Python finds "
        "this folder before an installed package where a program lies in it or is started in it "
        "with -m or -c: run the program from another folder, or build in place with 'make build'"
    )


def native() -> ModuleType:
    """The module `_native`; ImportError, with what to do, where it cannot be loaded."""
    try:
        from . import _native
    except ImportError as error:
        if any(path.suffix != ".pyi" for path in _FOLDER.glob("_native.*")):
            text = f"cannot be loaded ({error}); build it with 'pip install .' or 'make build'"
            raise ImportError(f"the native library of mindspore_nsa {text}") from error
        raise ImportError(how_to_get("the native library of mindspore_nsa")) from None
    return _native
