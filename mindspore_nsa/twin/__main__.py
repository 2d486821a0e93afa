"""The commands of ascendc_twin, for programs that call this project's Ascend operators, too."""

import importlib
import sys

from .. import _ascend_twin
from . import cflags, libs


def main() -> int:
    """Returns the exit code."""
    try:
        _ascend_twin.package()
    except ImportError as error:
        sys.exit(str(error))
    commands = importlib.import_module("ascendc_twin.__main__")
    packages = [_ascend_twin.CANN_PACKAGE]
    return commands.main("mindspore_nsa.twin", cflags=cflags, libs=libs, packages=packages)


if __name__ == "__main__":
    sys.exit(main())
