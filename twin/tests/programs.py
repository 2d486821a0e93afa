"""Starts Python programs that find the package under test, and the modules of the tests."""

import os
import subprocess
import sys
from pathlib import Path

import ascendc_twin

from .builds import ROOT

# The package under test, wherever it is installed.
PACKAGE = str(Path(ascendc_twin.__file__).parents[1])


def python(*arguments, cwd="/", **environment):
    """A finished Python process."""
    path = os.pathsep.join((PACKAGE, str(ROOT)))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
    )
