"""Python programs run as processes of their own: what may end, hang or limit a process."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import mindspore_nsa

PACKAGE = str(Path(mindspore_nsa.__file__).parents[1])


def python(program, *arguments, timeout=120, **environment):
    """Run a program that sees the package under test; gives subprocess.CompletedProcess."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"  # graphs are compiled from source in files only
        file.write_text(program)
        return subprocess.run(
            [sys.executable, file, *arguments],
            env={**os.environ, "PYTHONPATH": PACKAGE, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
