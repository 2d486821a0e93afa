"""Workers that do not fit together, or end: an error on all, nobody hangs."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
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
    "grid": r"ValueError: parallel_groups: context \* tensor must divide the 2 workers, got",
    "blocks": r"ValueError: NativeSparseAttention.selected_blocks: a layer with a context",
    "padding": r"ValueError: NativeSparseAttention: key_padding_mask must be None in a layer",
    "gather": rf"ValueError: gather_parameters: parameters must be the same .*{BOTH}",
    "ascend": "True True",
    "from_dense": "True True",
    "new_cache": r"ValueError: NativeSparseAttention.new_cache: a layer with a context",
}


# How worker 1 ends: settings of the workers, the log that has the cause, and the cause. Before it
# raises, there are the faults.
ENDS = {
    "raise": ({}, "worker_1.log", "RuntimeError: this worker has nothing more to say"),
    "kill": ({"MS_NODE_TIMEOUT": "10"}, "msrun.log", "Worker process {} exit with exception"),
}


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """{end: (folder of logs, what msrun gives, when it was over)} of two workers each.

    They run side by side, since they mostly wait.
    """

    def start(end, logs):
        result = msrun(logs, 2, PROGRAM, end, **ENDS[end][0])
        return logs, result, time.time()

    folders = {end: tmp_path_factory.mktemp("faults") / "logs" for end in ENDS}
    with ThreadPoolExecutor(len(folders)) as pool:
        yield {end: pool.submit(start, end, logs) for end, logs in folders.items()}


def test_faults(started):
    _, (_, printed), _ = started["raise"].result()
    for text in printed:
        found = dict(re.findall(r"FAULT ([^:]*): (.*)", text))
        assert "gather" in found, "".join(text[-3000:] for text in printed)
        assert {name.split()[0] for name in found} == set(EXPECTED)
        for name, message in found.items():
            assert re.match(EXPECTED[name.split()[0]], message), (name, message)


@pytest.mark.parametrize("end", ENDS)
def test_a_worker_ends(end, started):
    """The others wait for it, and have ended with it after a minute; a log has the cause."""
    logs, (code, texts), over = started[end].result()
    _, log, cause = ENDS[end]
    ended_at, process = re.search(r"ENDS AT (\S+) (\S+)", texts[1]).groups()
    assert code != 0
    assert over - float(ended_at) < 60
    assert cause.format(process) in (logs / log).read_text(errors="replace")
