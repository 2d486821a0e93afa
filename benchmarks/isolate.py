"""Runs a case in a process of its own, so that none finds the memory of another taken."""

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import mindspore as ms

# For `run_module` where memory is measured: otherwise what was freed while the inputs were drawn
# still counts as resident.
RETURN_FREED_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}


def in_process(case, settings):
    """(why the operator is not measured or None, `Result` or None)"""
    # For calls in PyNative mode; those of graphs return at once all the same.
    ms.runtime.launch_blocking()
    problem = case.problem()
    return (problem, None) if problem else (None, case.run(settings))


def run_module(module, *arguments, **environment):
    """Run a module of this package in a fresh process that imports what this one imports."""
    # Not the folders that MindSpore's rewriting puts there: mindspore/nn/layer has a math.py, which
    # would hide Python's own.
    framework = Path(ms.__file__).parent
    folders = [Path(os.path.abspath(folder)) for folder in sys.path]
    path = os.pathsep.join(str(f) for f in folders if not f.is_relative_to(framework))
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",  # Python looks into the working directory first
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def isolated(case, settings):
    """The same as `in_process`; a process that dies is a problem of its case."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "found")
        done = run_module(__name__, case.name, int(settings.quick), path)
        if done.returncode:
            return f"its process ended with {done.returncode}\n{done.stdout}", None
        return pickle.loads(path.read_bytes())


def main():
    from . import registry
    from .speed import Settings

    name, quick, path = sys.argv[1:]
    case = next(case for case in registry.CASES if case.name == name)
    Path(path).write_bytes(pickle.dumps(in_process(case, Settings(quick == "1"))))


if __name__ == "__main__":
    main()
