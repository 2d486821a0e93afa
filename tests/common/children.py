"""Python programs run as processes of their own: what may end, hang or limit a process."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import mindspore_nsa

PACKAGE = str(Path(mindspore_nsa.__file__).parents[1])


def python(program, *arguments, timeout=120, **environment):
    """Run a program that sees the package under test; gives subprocess.CompletedProcess.

    A variable of the environment that is None is not set. A program that takes longer is
    ended with all that it has started: a child that hangs would go on.
    """
    given = {**os.environ, "PYTHONPATH": PACKAGE, **environment}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"  # graphs are compiled from source in files only
        file.write_text(program)
        with subprocess.Popen(
            [sys.executable, file, *arguments],
            env={name: value for name, value in given.items() if value is not None},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
