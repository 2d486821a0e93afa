"""This compares what programs on device Ascend gave with the same kernels without MindSpore."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np

import mindspore_nsa
from mindspore_nsa import _ascend_twin, _native

ROOT = Path(__file__).parents[2]
PACKAGE = Path(mindspore_nsa.__file__).parents[1]
TWIN = Path(_ascend_twin.package().__file__).parents[1]


def called_file(folder):
    """Where the programs of a folder note what they call of CANN's own."""
    return Path(folder, "called").absolute()


def called_by_type(folder):
    """Types of the operators without an aclnn function that these programs called."""
    return by_type(called_file(folder).read_text())


def by_type(noted):
    """Gives the operators by type that such a file holds."""
    assert "aclnn" in noted
    lines = noted.splitlines()
    return {line.removeprefix("aclop ") for line in lines if line.startswith("aclop ")}


def run(*arguments, folder, timeout=900, python=None, **environment):
    """A Python program on device Ascend, in a folder for MindSpore's own files.

    Another `python` has a mindspore_nsa of its own. Gives subprocess.CompletedProcess.
    """
    # Not the whole source tree, whose mindspore_nsa would hide an installed one.
    sources = Path(folder) / "sources"
    if not sources.exists():
        sources.mkdir()
        for name in ("tests", "model_zoo_demo", "tools"):
            (sources / name).symlink_to(ROOT / name)
        (sources / "twin").mkdir()
        (sources / "twin" / "tests").symlink_to(ROOT / "twin" / "tests")
    paths = [sources] if python else [sources, PACKAGE, TWIN]
    own = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "GLOG_v": "3"}
    # The tests' own processes wait for every operator; programs of users do not.
    own["MS_DEV_LAUNCH_BLOCKING"] = "0"
    own["ASCENDC_TWIN_CALLED"] = str(called_file(folder))
    return subprocess.run(
        [python or sys.executable, "-m", "mindspore_nsa.twin", "run", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **own, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def collected(module, names, folder, **environment):
    """Gives {name: result} of a program's uses, all of them in one process."""
    file = Path(folder) / "found"
    program = ("-m", f"tests.cann.{module}", file, *names)
    done = run(*program, folder=folder, **environment)
    ended = done.stdout.split()
    assert done.returncode == 0, f"after {ended[-1:]}: {done.stderr[-4000:]}"
    return pickle.loads(file.read_bytes())


def inputs_of(case):
    """The inputs that the kernel got: the public function fills one list in."""
    named, attrs = case.named(), case.attrs
    if case.op == "NsaCompressAttention" and named["actual_cmp_seq_kvlen"] is None:
        q = named["actual_seq_qlen"]
        sizes = attrs["compress_block_size"], attrs["compress_stride"]
        filled = np.array(_native.compressed_seq_len(q.tolist(), *sizes), np.int64)
        named["actual_cmp_seq_kvlen"] = filled
    return list(named.values())


def differences(file):
    """(calls, tensors, what is wrong): every output has the bits of the target ascend_twin."""
    results = pickle.loads(Path(file).read_bytes())
    tensors, wrong = 0, []
    for label, case, ours in results:
        if isinstance(ours, str):
            wrong.append(f"{label}: {ours}")
            continue
        theirs = _native.run(case.op, inputs_of(case), case.attrs, target="ascend_twin")
        assert len(ours) == len(theirs)
        for i, pair in enumerate(zip(ours, theirs)):
            a, b = (x[1] if isinstance(x, tuple) else x for x in pair)
            tensors += 1
            if (a.shape, a.dtype, a.tobytes()) != (b.shape, b.dtype, b.tobytes()):
                wrong.append(f"{label}: output {i} has other bits")
    return len(results), tensors, wrong


if __name__ == "__main__":
    calls, tensors, wrong = differences(sys.argv[1])
    print(f"{calls} calls, {tensors} tensors", *wrong, sep="\n")
