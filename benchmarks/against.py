"""`python -m benchmarks --against REV`: every operator's case with the kernels of another commit.

The commit is built in a folder under build/against. Both libraries run the same calls in turn, each
in a process of its own, so that whatever slows the machine slows both. What counts is the median
ratio of processor times of calls that follow each other, which other programs
change least; a ratio above 1 means that this tree is slower.
"""

import math
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import mindspore_nsa

ROOT = Path(__file__).resolve().parents[1]
# A measurement is of so many seconds at least.
LONG = 0.1

# The program that runs in the process of a library. It reads the files of calls and prepares them;
# for every line it is sent, it calls one of them as often as the line says.
SERVER = """
import os, pickle, sys, time
sys.path.insert(0, sys.argv[1])
from mindspore_nsa import _native
found = os.path.realpath(_native.__file__)
assert found.startswith(os.path.realpath(sys.argv[1])), found
calls = {}
print("ready", flush=True)
for line in sys.stdin:
    path, threads, count = line.split()
    if path not in calls:
        calls.clear()
        with open(path, "rb") as file:
            calls[path] = pickle.load(file)
    begin = time.process_time()
    for _ in range(int(count)):
        _native.run(*calls[path], num_threads=int(threads))
    print(time.process_time() - begin, flush=True)
"""


class Library:
    """A process that calls the kernels of the package in a folder."""

    def __init__(self, folder):
        command = [sys.executable, "-c", SERVER, str(folder)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, cwd="/", **pipes)
        assert self._process.stdout.readline() == "ready\n", f"no library in {folder}"

    def seconds(self, path, threads, count):
        """Processor time of a call, of so many."""
        self._process.stdin.write(f"{path} {threads} {count}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"its process ended with {self._process.wait()}")
        return float(answer) / count

    def close(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


def built(revision):
    """The folder of a commit's package, built there if it is not yet."""
    name = subprocess.run(
        ["git", "rev-parse", "--short=12", "--verify", f"{revision}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if name.returncode:
        raise ValueError(f"--against {revision}: {name.stderr.strip()}")
    folder = ROOT / "build" / "against" / name.stdout.strip()
    if not list(folder.glob("mindspore_nsa/_native*.so")):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile() as archive:
            command = ["git", "archive", name.stdout.strip()]
            subprocess.run(command, cwd=ROOT, check=True, stdout=archive)
            archive.seek(0)
            subprocess.run(["tar", "x", "-C", str(folder)], check=True, stdin=archive)
        print(f"building {revision} in {folder}", flush=True)
        build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        environment = {**os.environ, "NSA_BUILD_DIR": str(folder / "build" / "dev")}
        subprocess.run(build, cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL)
    return folder


def calls_of(case, quick):
    """(operator, inputs, attributes) of a case of an operator's speed."""
    from mindspore_nsa import _native

    workload = case.build(case.quick_tokens if quick else case.tokens, case.dtype)
    call = workload.forward
    if case.direction == "backward":
        call = workload.gradient(_native.run(call.op, call.inputs, call.attrs))
    return call.op, call.inputs, call.attrs


def paired(ours, theirs, path, threads, rounds):
    """(seconds of ours, of theirs, median ratio of ours over theirs) of a file's call."""
    times = {library: [] for library in (ours, theirs)}
    for library in times:
        library.seconds(path, threads, 1)
    count = math.ceil(LONG / max(1e-5, ours.seconds(path, threads, 1)))
    for number in range(rounds):
        # By turns the first: what a call leaves in the caches is the next one's.
        for library in (ours, theirs) if number % 2 else (theirs, ours):
            times[library].append(library.seconds(path, threads, count))
    ratios = [a / b for a, b in zip(times[ours], times[theirs], strict=True)]
    return *(statistics.median(times[library]) for library in times), statistics.median(ratios)


def run(cases, folder, quick, threads=1, say=print):
    """Print a line for each case that has an operator's call; gives name to ratio."""
    ours, theirs = Library(Path(mindspore_nsa.__file__).parents[1]), Library(folder)
    found = {}
    say(f"{'case':40} {'ms':>9} {'ms there':>9}  ratio")
    with tempfile.TemporaryDirectory() as calls:
        for case in cases:
            path = Path(calls, case.name)
            path.write_bytes(pickle.dumps(calls_of(case, quick)))
            try:
                times = paired(ours, theirs, path, threads, 5 if quick else 15)
            finally:
                path.unlink()
            found[case.name] = times[2]
            say(f"{case.name:40} {1e3 * times[0]:9.3f} {1e3 * times[1]:9.3f}  {times[2]:.3f}")
    ours.close()
    theirs.close()
    return found
