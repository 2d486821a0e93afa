"""The stand-in's HCCL without MindSpore: values of every collective, calls that do not fit."""

import ctypes
import json
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from twin.tests.host.acl import SUCCESS, Device, handle, recent_error

from .collectives import (
    DTYPES,
    FAULTS,
    GIVEN,
    NULL,
    PARAMETER,
    REDUCED,
    REMOTE,
    ROOT_BYTES,
    TIMEOUT,
    UNSUPPORTED,
    WORKERS,
    connect,
    drawn,
    hccl,
    numpy_dtype,
    own_faults,
    ring,
    root_info,
)
from .judge import PACKAGE, ROOT, TWIN

COMBINE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Results of the three workers, in their order."""
    folder = tmp_path_factory.mktemp("hccl")
    (folder / "roots").write_bytes(pickle.dumps([root_info() for _ in range(1 + len(FAULTS))]))
    paths = f"{ROOT}:{PACKAGE}:{TWIN}"
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.cann.collectives", str(rank), str(WORKERS)),
                *(folder / "roots", folder / f"found.{rank}"),
            ],
            cwd=folder,
            env={"PATH": "", "PYTHONPATH": paths, "ASCEND_GLOBAL_LOG_LEVEL": "3"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORKERS)
    ]
    errors = [worker.communicate(timeout=120)[1] for worker in started]
    assert not any(worker.returncode for worker in started), "".join(e[-2000:] for e in errors)
    return [pickle.loads((folder / f"found.{rank}").read_bytes()) for rank in range(WORKERS)]


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def reduced(parts, dtype, op):
    """One after another, rounded at every step."""
    total = parts[0]
    for part in parts[1:]:
        with np.errstate(over="ignore", invalid="ignore"):
            if dtype != "bfloat16":
                total = COMBINE[op](total, part)
                continue
            wide = COMBINE[op](widened(total), widened(part)).view(np.uint32)
            total = ((wide + 0x7FFF + (wide >> 16 & 1)) >> 16).astype(np.uint16)
    return total


def expected_reductions(rank, dtype, op):
    total = reduced([drawn(r, 5, dtype) for r in range(WORKERS)], dtype, op)
    many = reduced([drawn(r, 2 * WORKERS, dtype) for r in range(WORKERS)], dtype, op)
    uneven = reduced([drawn(r, 6, dtype) for r in range(WORKERS)], dtype, op)
    return {
        "AllReduce": total,
        "Reduce": total if rank == 1 else np.full(5, 77, numpy_dtype(dtype)),
        "ReduceScatter": many[2 * rank : 2 * rank + 2],
        "ReduceScatterV": np.split(uneven, [1, 3])[rank],
    }


def expected_movements(rank, dtype):
    every = range(WORKERS)
    many = [drawn(r, 2 * WORKERS, dtype) for r in every]
    parts = [np.split(drawn(r, GIVEN[r].sum(), dtype), np.cumsum(GIVEN[r])[:-1]) for r in every]
    of_others = [parts[r][rank] for r in every]
    received = ring((rank - 1) % WORKERS, dtype)[0]
    # Worker 0's one element at place 5, worker 1's two at 0, worker 2's three at 2.
    uneven = np.concatenate([drawn(r, r + 1, dtype) for r in (1, 2, 0)])
    return {
        "AllGather": np.concatenate([drawn(r, 4, dtype) for r in every]),
        "AllGatherV": uneven,
        "Broadcast": drawn(2, 4, dtype),
        "Scatter": many[2][2 * rank : 2 * rank + 2],
        "AlltoAll": np.concatenate([m[2 * rank : 2 * rank + 2] for m in many]),
        "AlltoAllV": np.concatenate(of_others[::-1]),
        "AlltoAllVC": np.concatenate(of_others),
        "BatchSendRecv": received,
        "SendRecv": drawn(0, 3, dtype) if rank == 2 else None,
    }


def test_values(workers):
    """Every collective in every dtype and operation: the bits, on every worker."""
    overflows = 0
    for rank, worker in enumerate(workers):
        calls = dict(worker["calls"])
        assert calls.pop(("itself", ""))[:2] == (rank, WORKERS)
        expected = {("Barrier", ""): None}
        for dtype, op in REDUCED:
            for label, values in expected_reductions(rank, dtype, op).items():
                expected[label, dtype, op] = values
        for dtype in DTYPES:
            for label, values in expected_movements(rank, dtype).items():
                expected[label, dtype] = values
        expected["in place", "float32"] = expected["AllReduce", "float32", "sum"]
        assert calls.keys() == expected.keys()
        for label, values in expected.items():
            status, done, text, found = calls[label]
            assert (status, done, text) == (SUCCESS, SUCCESS, None), (label, rank, text)
            if values is None:
                assert found is None
            else:
                assert (found.dtype, found.tobytes()) == (values.dtype, values.tobytes()), label
        overflows += int(np.isinf(expected["AllReduce", "float16", "sum"]).sum())
    assert overflows, "float16 is summed in float16, as on the device"
    names = {worker["calls"]["itself", ""][2] for worker in workers}
    assert len(names) == 1


# Errors on worker 0 and on worker 1; None where a worker sees none.
TEXTS = {
    "count": ["HcclAllReduce(6 float32, sum) on worker 0", "HcclAllReduce(5 float32, sum) on"],
    "dtype": ["HcclAllReduce(6 float16, sum)", "HcclAllReduce(6 bfloat16, sum)"],
    "operation": ["HcclAllReduce(6 float32, sum)", "HcclAllReduce(6 float32, max)"],
    "root": ["HcclBroadcast(4 float32, root 0)", "HcclBroadcast(4 float32, root 1)"],
    "order": ["HcclAllReduce(6 float32, sum)", "HcclAllGather(3 float32)"],
    "exchange": [
        "call 2, HcclAlltoAllV, worker 0 gives 3 float32 to worker 1",
        "expects 2 float32",
    ],
    "count of a message": ["worker 0 gives 4 float32 to worker 1", "expects 3 float32"],
    "dtype of a message": ["worker 0 gives 4 float32 to worker 1", "expects 4 int32"],
}


@pytest.mark.parametrize("label", TEXTS)
def test_calls_that_do_not_fit(workers, label):
    """On both workers the stream fails, and the error names both calls."""
    for worker in workers[:2]:
        status, done, text, error, later = worker["faults"][label]
        assert status == SUCCESS and done not in (SUCCESS, None)
        assert all(part in text for part in TEXTS[label]), text
        assert (error, later) == (PARAMETER, REMOTE)


def test_nobody_waits_for_ever(workers):
    """A worker that does not come, and one that has left the communicator."""
    faults = workers[0]["faults"]
    waits = "worker 0 waits in call 2, HcclBarrier(), of communicator"
    last = "for worker 1, whose last call there was HcclBarrier(), "
    for label, reason in (
        ("nobody comes", "for longer than 1 s, HCCL_EXEC_TIMEOUT"),
        ("one has left", "and has destroyed the communicator"),
    ):
        status, done, text, *_ = faults[label]
        assert status == SUCCESS and done != SUCCESS
        assert waits in text and last + reason in text, text
    assert not {"nobody comes", "one has left"} & workers[1]["faults"].keys()


REFUSED = {
    "operation": (UNSUPPORTED, "op must be sum, prod, max or min, got operation 4"),
    "dtype": (UNSUPPORTED, "dataType must be int8, int16, int32, int64, float16, float32"),
    "product": (UNSUPPORTED, "op prod takes neither int16 nor bfloat16, got bfloat16"),
    "unknown dtype": (UNSUPPORTED, "dataType is dtype 12"),
    "null": (NULL, "sendBuf must not be null"),
    "too short": (PARAMETER, "sendBuf must have 16 bytes of device memory, got 12"),
    "no room": (PARAMETER, "recvBuf must have 16 bytes of device memory, got 8"),
    "host memory": (PARAMETER, "buf must have 16 bytes of device memory, got an address outside"),
    "root": (PARAMETER, "root must be a worker below 1, got 7"),
    "to itself": (PARAMETER, "the other worker must be one of 0 to 0 and not this one, got 0"),
    "own part": (PARAMETER, "recvCounts[0] must be sendCount, 2, got 1"),
    "in place": (PARAMETER, "recvBuf must not be sendBuf"),
    "no communicator": (PARAMETER, "comm is no communicator, or has been destroyed"),
}


def test_arguments():
    """A call that is wrong by itself says so at once."""
    with Device() as device:
        comm = connect(root_info(), 0, 1)
        found = own_faults(comm, device)
        assert hccl.HcclCommDestroy(comm) == SUCCESS
        assert hccl.HcclCommDestroy(comm) == PARAMETER
        assert "comm is no communicator" in recent_error()
    assert found.keys() == REFUSED.keys()
    for label, (status, text) in REFUSED.items():
        assert found[label][0] == status and text in found[label][1], (label, found[label])


def table(*ranks, servers=1):
    """Text of a rank table."""
    devices = [{"device_id": str(i), "rank_id": str(rank)} for i, rank in enumerate(ranks)]
    listed = [{"server_id": f"node_{i}", "device": devices} for i in range(servers)]
    return json.dumps({"status": "completed", "version": "1.0", "server_list": listed})


def test_rank_tables(tmp_path):
    """A communicator of a table, one of some of its workers, and tables that are refused."""
    whole, some, name = handle(), handle(), ctypes.create_string_buffer(128)
    path = tmp_path / "table.json"

    def join(text, rank=0):
        path.write_text(text)
        given = str(path).encode()
        return hccl.HcclCommInitClusterInfo(given, rank, ctypes.byref(whole)), recent_error()

    with Device():
        assert join(table(0))[0] == SUCCESS
        ranks = (ctypes.c_uint32 * 1)(0)
        rest = 1, ranks, ctypes.c_uint64(5), 0, None, ctypes.byref(some)
        # Without a config HCCL names it.
        assert hccl.HcclCreateSubCommConfig(ctypes.byref(whole), *rest) == SUCCESS
        assert hccl.HcclGetCommName(some, name) == SUCCESS and name.value == b"hccl_00000005"
        assert hccl.HcclCommDestroy(some) == SUCCESS
        ranks[0] = 1
        assert hccl.HcclCreateSubCommConfig(ctypes.byref(whole), *rest) == PARAMETER
        assert "rankIds must be different workers below 1" in recent_error()
        assert hccl.HcclCommDestroy(whole) == SUCCESS
        for (status, text), (expected, part) in {
            join(table(0, servers=2)): (UNSUPPORTED, "must have one server"),
            join(table(1)): (PARAMETER, "must have rank_id 0 to 0, each once; 0 is missing"),
            join(table(0), 1): (PARAMETER, "rank must be below the number of workers, 1, got 1"),
        }.items():
            assert status == expected and part in text, text
        missing = str(tmp_path / "none").encode()
        assert hccl.HcclCommInitClusterInfo(missing, 0, ctypes.byref(whole)) == 10
        assert "cannot read the rank table" in recent_error()


def test_a_signal_while_workers_meet(monkeypatch):
    """It interrupts the wait for other workers, which ends when it would have."""
    monkeypatch.setenv("HCCL_CONNECT_TIMEOUT", "1")
    found = []

    def meet():
        comm, root = handle(), ctypes.create_string_buffer(root_info(), ROOT_BYTES)
        with Device():
            status = hccl.HcclCommInitRootInfo(2, root, 0, ctypes.byref(comm))
            found.append((status, recent_error()))

    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        waiting = threading.Thread(target=meet, daemon=True)
        waiting.start()
        waiting.join(0.3)
        signal.pthread_kill(waiting.ident, signal.SIGUSR1)
        waiting.join(30)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert found and found[0][0] == TIMEOUT
    assert "for worker 1, for longer than HCCL_CONNECT_TIMEOUT" in found[0][1]
