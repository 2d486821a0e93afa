"""The package ascendc_twin, which target ``ascend_twin`` and ``mindspore_nsa.twin`` need."""

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from ._native_library import how_to_get, native
from ._version import __version__

_FOLDER = Path(__file__).resolve().parent
# The operators compiled against the twin; `cann` is laid out as a package of them on CANN is.
LIBRARY = _FOLDER / "twin" / "libmindspore_nsa_twin.so"
HEADERS = _FOLDER / "twin" / "include"
CANN_PACKAGE = _FOLDER / "twin" / "cann"


def _imported() -> ModuleType:
    try:
        return importlib.import_module("ascendc_twin")
    except ModuleNotFoundError as error:
        if error.name != "ascendc_twin":
            raise
    # In the sources it lies beside this package.
    folder = _FOLDER.parent / "twin" / "ascendc_twin"
    if not (folder / "__init__.py").exists():
        raise ImportError(
            "target 'ascend_twin' and mindspore_nsa.twin need the package ascendc-twin "
            f"{__version__}, which is not installed: pip install ./twin in a clone of "
            "mindspore_nsa"
        )
    spec = importlib.util.spec_from_file_location(
        "ascendc_twin", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    module = sys.modules["ascendc_twin"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def package() -> ModuleType:
    """The package ascendc_twin.

    Returns:
        module.

    Raises:
        ImportError: If it is not installed, or in another version than this package.
    """
    found = _imported()
    if found.__version__ != __version__:
        raise ImportError(
            f"mindspore_nsa {__version__} needs the package ascendc-twin {__version__}, got "
            f"{found.__version__} in {Path(found.__file__).parent}: install both from one source"
        )
    return found


def library() -> str:
    """Path of the operators' library; FileNotFoundError where it has not been built."""
    if not LIBRARY.exists():
        raise FileNotFoundError(how_to_get("the library of the Ascend operators on the twin"))
    return str(LIBRARY)


@cache
def load() -> None:
    """Open what calls of target ``ascend_twin`` need, once.

    Raises:
        ImportError: See `package`.
        FileNotFoundError: If a library has not been built.
        RuntimeError: If one cannot be loaded.
    """
    native().open_ascend_twin([package().library(), library()])
