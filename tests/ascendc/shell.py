"""Starts programs."""

import os
import subprocess


def shell(command, folder, **environment):
    """The finished process with its text output."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
