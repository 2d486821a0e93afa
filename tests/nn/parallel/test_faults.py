"""Workers that do not fit together, or end: an error on all, nobody hangs; bytes as stated."""

import re
import time
from pathlib import Path

import pytest

from .starts import msrun

PROGRAM = Path(__file__).with_name("faults.py")
BOTH = r"on worker 0 and .*on worker 1"
EXPECTED = {
    "tokens": rf"ValueError: ContextShards: tokens, order .*got \[64, .*{BOTH}",
    "order": rf"ValueError: ContextShards: tokens, order .*contiguous.*{BOTH}",
    "multiple": r"ValueError: ContextShards: tokens must be a positive multiple of 2 .*pad: 64",
    "config": rf'ValueError: NativeSparseAttention: config .*"window_size": 8.*{BOTH}',
    "heads": r"ValueError: NativeSparseAttention: num_kv_heads must be a multiple of the 2 .*got 3",
    "lists": rf"ValueError: NativeSparseAttention: actual_seq_len must be the same .*{BOTH}",
    "rows": r"ValueError: NativeSparseAttention: x must be of shape \[32, 16\] .*got \(5, 16\)",
    "cache": r"ValueError: NativeSparseAttention: cache must be None in a layer with a context",
    "dtype": rf"ValueError: NativeSparseAttention: dtype of x must be the same .*{BOTH}",
    "new_cache": r"ValueError: NativeSparseAttention.new_cache: a layer with a context",
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What two workers print."""
    code, texts = msrun(tmp_path_factory.mktemp("faults") / "logs", 2, PROGRAM)
    assert code == 0, "".join(text[-3000:] for text in texts)
    return texts


def test_faults(printed):
    for text in printed:
        found = dict(re.findall(r"FAULT ([^:]*): (.*)", text))
        assert {name.split()[0] for name in found} == set(EXPECTED)
        for name, message in found.items():
            assert re.match(EXPECTED[name.split()[0]], message), (name, message)


def test_bytes(printed):
    """Those of docs/parallel.md, with AllReduce in the backward."""
    workers, tokens, row, size = 2, 64, 2 * (8 + 8), 4
    block, stride, window = 32, 16, 8
    own = tokens // workers
    begins = range(30, tokens - block + 1, stride)  # the first document has no window
    windows = max(sum(b // own == worker for b in begins) for worker in range(workers))
    rows = own + max(1, windows) + min(own, window - 1) + min(own, block - 1)
    forward = (workers - 1) * rows * row * size
    for text in printed:
        got = [float(x) for x in re.search(r"BYTES (\S+) (\S+)", text).groups()]
        assert got == [forward, 2 * forward]


@pytest.mark.parametrize("end", ["raise", "kill"])
def test_a_worker_ends(end, tmp_path):
    began = time.monotonic()
    code, texts = msrun(tmp_path / "logs", 2, PROGRAM, end, MS_NODE_TIMEOUT="10")
    assert code != 0
    assert time.monotonic() - began < 240  # 60 s on a machine with nothing else to do
    if end == "raise":
        assert "this worker has nothing more to say" in texts[1]
