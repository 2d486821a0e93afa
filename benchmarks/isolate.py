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


# Messages of a process that dies are cut to this: a traceback with its cause.
LAST_CHARACTERS = 4000


def run_module(module, *arguments, stderr=None, **environment):
    """Run a module of this package in a fresh process that imports what this one imports.

    Its messages go where `stderr` says, as `subprocess.run` takes it: by default to this one's.
    """
    # Not the folders that MindSpore's rewriting puts there: mindspore/nn/layer has a math.py, which
    # would hide Python's own.
    framework = Path(ms.__file__).parent
    folders = [Path(os.path.abspath(folder)) for folder in sys.path]
    path = os.pathsep.join(str(f) for f in folders if not f.is_relative_to(framework))
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd="/",  # Python looks into the working directory first
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def isolated(case, settings):
    """`in_process` in a process of its own, which is a problem of its case where it dies.

    The answer counts as soon as it is written: MindSpore's threads may still end the process with
    a signal on a busy machine while Python takes them down.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "found")
        quick = int(settings.quick)
        done = run_module(__name__, case.name, quick, path, stderr=subprocess.PIPE)
        if path.exists():
            sys.stderr.write(done.stderr)
            return pickle.loads(path.read_bytes())
        said = (done.stdout + done.stderr)[-LAST_CHARACTERS:]
        return f"its process ended with {done.returncode}\n{said}", None


def main():
    from . import registry
    from .speed import Settings

    name, quick, path = sys.argv[1:]
    case = next(case for case in registry.CASES if case.name == name)
    answer = pickle.dumps(in_process(case, Settings(quick == "1")))
    part = Path(f"{path}.part")
    part.write_bytes(answer)
    part.rename(path)  # whoever finds the file finds all of it


if __name__ == "__main__":
    main()
