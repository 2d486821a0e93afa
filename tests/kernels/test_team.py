"""The threads of a call: how many a caller has, when they sleep and end, that they do not race."""

import pytest

from tests.common.children import python
from tests.native import tsan

START = """
import os, threading, time
import numpy as np
from mindspore_nsa import _native

x, weight = np.ones((4096, 2, 64), np.float32), np.ones((8, 2), np.float32)
WINDOW = {"compress_block_size": 8, "compress_stride": 4, "num_windows": 1023}
def compress(*threads):
    return _native.run("NsaCompress", [x, weight, np.array([4096])], WINDOW, *threads)[0]
def workers():
    states = []
    for task in os.listdir("/proc/self/task"):
        try:
            stat = open(f"/proc/self/task/{task}/stat").read()
        except (FileNotFoundError, ProcessLookupError):  # it has ended since the folder was listed
            continue
        name, _, rest = stat.partition("(")[2].rpartition(")")
        if name == "nsa_worker":
            states.append(rest.split()[0])
    return states
def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, workers()
        time.sleep(0.001)
"""


def check(program, **environment):
    done = python(START + program, **environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_caller_keeps_its_workers():
    check(
        """
assert workers() == []
for threads, expected in ((1, 0), (4, 3), (4, 3), (2, 1), (1, 1), (6, 5)):
    compress(threads)
    until(lambda: len(workers()) == expected)
"""
    )


def test_workers_end_with_their_caller():
    check(
        """
seen = []
def run():
    compress(3)
    until(lambda: len(workers()) == 2)
    seen.append(True)
thread = threading.Thread(target=run)
thread.start()
thread.join()
assert seen
until(lambda: workers() == [])
"""
    )


@pytest.mark.parametrize("policy", ["passive", "PASSIVE", "active", "", None])
def test_workers_sleep(policy):
    check(
        """
for _ in range(20):
    compress(3)
    until(lambda: workers() == ["S", "S"])
""",
        OMP_WAIT_POLICY=policy,
    )


def test_many_callers():
    """Each with a number of threads of its own, all at once."""
    check(
        """
expected, failed = compress(1), []
def run(threads):
    for turn in range(100):
        if not np.array_equal(compress(1 + (threads + turn) % 5), expected):
            failed.append(threads)
callers = [threading.Thread(target=run, args=(n,)) for n in range(6)]
for caller in callers:
    caller.start()
for caller in callers:
    caller.join()
assert not failed
until(lambda: workers() == [])
"""
    )


def test_a_daemon_outlives_the_interpreter():
    """Its kernel ends after the interpreter, which no longer takes it back."""
    check(
        """
begun = threading.Event()
def run():
    while True:
        compress(1)
        begun.set()
threading.Thread(target=run, daemon=True).start()
begun.wait()
"""
    )


def test_races_are_seen_and_there_is_none(tmp_path):
    runs = tsan.probe(tmp_path)
    assert "data race" in runs["race"].stderr
    assert runs["clean"].returncode == 0, runs["clean"].stderr
