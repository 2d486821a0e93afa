"""The stand-in's collectives through ctypes: one worker of several.

python -m tests.cann.collectives RANK SIZE ROOTS RESULTS

makes every call of `good_calls` in one communicator, then each of `FAULTS` in one of its own, and
writes what came of them. ROOTS holds a root info for each communicator.
"""

import ctypes
import os
import pickle
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ascendc_twin import library
from twin.tests.host.acl import SUCCESS, Device, handle, recent_error

LIBRARY = Path(library()).parent / "cann" / "libhccl.so"
hccl = ctypes.CDLL(str(LIBRARY))
ROOT_BYTES = 4108
WORKERS = 3
# The numbers of HcclDataType and HcclReduceOp.
DTYPES = {
    **{"int8": 0, "int16": 1, "int32": 2, "float16": 3, "float32": 4, "int64": 5, "uint64": 6},
    **{"uint8": 7, "uint16": 8, "uint32": 9, "float64": 10, "bfloat16": 11},
}
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3}
PARAMETER, NULL, UNSUPPORTED, TIMEOUT, REMOTE = 1, 2, 5, 9, 21


def root_info():
    """Return the root information of a new communicator, as bytes."""
    root = ctypes.create_string_buffer(ROOT_BYTES)
    assert hccl.HcclGetRootInfo(root) == SUCCESS
    return root.raw


def numpy_dtype(dtype):
    """Return NumPy's dtype for HCCL's; bfloat16 has its bits."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def drawn(rank, count, dtype, seed=0):
    """A worker's elements. Sums of three of int8 wrap around, those of float16 can overflow."""
    rng = np.random.default_rng([seed, rank, count])
    if dtype == "bfloat16":
        return (rng.standard_normal(count).astype(np.float32).view(np.uint32) >> 16).astype(
            "uint16"
        )
    if dtype.startswith("float"):
        if dtype == "float16":
            return rng.uniform(-6e4, 6e4, count).astype(dtype)
        return rng.standard_normal(count).astype(dtype)
    return rng.integers(0, 100, count).astype(dtype)


@dataclass
class Call:
    """A call of one worker: the function, what it sends, what it has room for, how it goes on.

    `arguments` are those between the buffers and the communicator; "send" and "receive" among them
    stand for the two addresses.
    """

    function: str
    arguments: tuple
    send: object = None
    receive: object = None  # an array that holds what is there before

    def run(self, comm, device):
        """(status of the call, status of the stream, the text of an error, what was received)."""
        memory = {
            "send": None if self.send is None else device.put(self.send),
            "receive": None if self.receive is None else device.put(self.receive),
        }
        given = [memory[a] if isinstance(a, str) else a for a in self.arguments]
        status = getattr(hccl, f"Hccl{self.function}")(*given, comm, device.stream)
        done = device.synchronize() if status == SUCCESS else None
        text, found = recent_error(), None
        if (status, done) == (SUCCESS, SUCCESS) and self.receive is not None:
            found = device.get(memory["receive"], self.receive.shape, self.receive.dtype)
        return status, done, text, found


def u64(value):
    return ctypes.c_uint64(value)


def counts(values):
    return (ctypes.c_uint64 * len(values))(*values)


class Item(ctypes.Structure):
    """HcclSendRecvItem."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("dtype", ctypes.c_int),
        ("peer", ctypes.c_uint32),
    )


def room(count, dtype):
    return np.full(count, 77, numpy_dtype(dtype))


def reductions(rank, dtype, op):
    """{label: call} of what reduces; root 1."""
    one, many = drawn(rank, 5, dtype), drawn(rank, 2 * WORKERS, dtype)
    kind = (DTYPES[dtype], OPS[op])
    uneven = drawn(rank, 6, dtype)
    return {
        "AllReduce": Call("AllReduce", ("send", "receive", u64(5), *kind), one, room(5, dtype)),
        "Reduce": Call("Reduce", ("send", "receive", u64(5), *kind, 1), one, room(5, dtype)),
        "ReduceScatter": Call(
            "ReduceScatter", ("send", "receive", u64(2), *kind), many, room(2, dtype)
        ),
        "ReduceScatterV": Call(
            "ReduceScatterV",
            ("send", counts([1, 2, 3]), counts([0, 1, 3]), "receive", u64(rank + 1), *kind),
            uneven,
            room(rank + 1, dtype),
        ),
    }


# Elements that worker i gives to worker j.
GIVEN = np.array([[1, 0, 2], [3, 1, 0], [2, 2, 4]])


def movements(rank, dtype):
    """{label: call} of what only moves elements; root 2."""
    code, one = DTYPES[dtype], drawn(rank, 4, dtype)
    many = drawn(rank, 2 * WORKERS, dtype)
    sent, taken = GIVEN[rank].tolist(), GIVEN[:, rank].tolist()
    # Parts stand in the order of workers in one buffer, the other way round in the other.
    sent_at = np.cumsum([0, *sent[:-1]]).tolist()
    taken_at = np.cumsum([0, *taken[:0:-1]])[::-1].tolist()
    varied = drawn(rank, sum(sent), dtype)
    return {
        "AllGather": Call(
            "AllGather", ("send", "receive", u64(4), code), one, room(4 * WORKERS, dtype)
        ),
        "AllGatherV": Call(
            "AllGatherV",
            ("send", u64(rank + 1), "receive", counts([1, 2, 3]), counts([5, 0, 2]), code),
            drawn(rank, rank + 1, dtype),
            room(6, dtype),
        ),
        "Broadcast": Call("Broadcast", ("receive", u64(4), code, 2), None, one),
        "Scatter": Call("Scatter", ("send", "receive", u64(2), code, 2), many, room(2, dtype)),
        "AlltoAll": Call(
            "AlltoAll",
            ("send", u64(2), code, "receive", u64(2), code),
            many,
            room(2 * WORKERS, dtype),
        ),
        "AlltoAllV": Call(
            "AlltoAllV",
            (
                *("send", counts(sent), counts(sent_at), code),
                *("receive", counts(taken), counts(taken_at), code),
            ),
            varied,
            room(sum(taken), dtype),
        ),
        "AlltoAllVC": Call(
            "AlltoAllVC",
            ("send", counts(GIVEN.flatten().tolist()), code, "receive", code),
            varied,
            room(sum(taken), dtype),
        ),
    }


def ring(rank, dtype):
    """To the next worker, from the one before, in one batch."""
    return drawn(rank, 3, dtype), (rank + 1) % WORKERS, (rank - 1) % WORKERS


def run_ring(comm, device, rank, dtype):
    """Call HcclBatchSendRecv and return what `Call.run` returns."""
    values, to, source = ring(rank, dtype)
    send, receive = device.put(values), device.put(room(3, dtype))
    code = DTYPES[dtype]
    items = (Item * 2)(Item(0, send, 3, code, to), Item(1, receive, 3, code, source))
    status = hccl.HcclBatchSendRecv(items, 2, comm, device.stream)
    done = device.synchronize()
    return status, done, recent_error(), device.get(receive, 3, numpy_dtype(dtype))


def run_pair(comm, device, rank, dtype):
    """Worker 0 sends, worker 2 receives."""
    if rank == 1:
        return SUCCESS, SUCCESS, None, None
    arguments = (u64(3), DTYPES[dtype], 2 - rank)
    if rank == 0:
        return Call("Send", ("send", *arguments), drawn(0, 3, dtype)).run(comm, device)
    return Call("Recv", ("receive", *arguments), None, room(3, dtype)).run(comm, device)


REDUCED = [
    *((dtype, "sum") for dtype in ("int8", "int16", "int32", "int64")),
    *((dtype, "sum") for dtype in ("float16", "float32", "bfloat16")),
    *(("float16", "prod"), ("int32", "prod"), ("bfloat16", "max"), ("int8", "min")),
]


def good_calls(comm, device, rank):
    """{label: what came of a call}."""
    found = {}
    for dtype, op in REDUCED:
        for label, call in reductions(rank, dtype, op).items():
            found[label, dtype, op] = call.run(comm, device)
    for dtype in DTYPES:
        for label, call in movements(rank, dtype).items():
            found[label, dtype] = call.run(comm, device)
        found["BatchSendRecv", dtype] = run_ring(comm, device, rank, dtype)
        found["SendRecv", dtype] = run_pair(comm, device, rank, dtype)
    found["Barrier", ""] = Call("Barrier", ()).run(comm, device)
    # In place, and a communicator that says of itself what it is.
    value = drawn(rank, 5, "float32")
    code = DTYPES["float32"]
    call = Call("AllReduce", ("receive", "receive", u64(5), code, 0), None, value)
    found["in place", "float32"] = call.run(comm, device)
    number, size = ctypes.c_uint32(9), ctypes.c_uint32(9)
    name = ctypes.create_string_buffer(128)
    assert hccl.HcclGetRankId(comm, ctypes.byref(number)) == SUCCESS
    assert hccl.HcclGetRankSize(comm, ctypes.byref(size)) == SUCCESS
    assert hccl.HcclGetCommName(comm, name) == SUCCESS
    found["itself", ""] = number.value, size.value, name.value.decode()
    return found


# Pairs of calls by two workers follow; for None a worker calls nothing and leaves.
CODE = DTYPES["float32"]


def _all_reduce(count, dtype="float32", op="sum"):
    arguments = ("send", "receive", u64(count), DTYPES[dtype], OPS[op])
    return Call("AllReduce", arguments, room(count, dtype), room(count, dtype))


def _all_gather(count):
    arguments = ("send", "receive", u64(count), CODE)
    return Call("AllGather", arguments, room(count, "float32"), room(2 * count, "float32"))


def _broadcast(root):
    return Call("Broadcast", ("receive", u64(4), CODE, root), None, room(4, "float32"))


def _uneven(rank):
    """Worker 0 gives worker 1 one element more than that expects."""
    sent, taken = ([1, 3], [1, 2]) if rank == 0 else ([2, 1], [2, 1])
    places, whole = counts([0, 8]), room(16, "float32")
    arguments = ("send", counts(sent), places, CODE, "receive", counts(taken), places, CODE)
    return Call("AlltoAllV", arguments, whole, whole)


def _message(rank, count, dtype):
    """Worker 0 sends four of float32."""
    if rank == 0:
        return Call("Send", ("send", u64(4), CODE, 1), room(4, "float32"))
    return Call("Recv", ("receive", u64(count), DTYPES[dtype], 0), None, room(4, dtype))


FAULTS = {
    "count": lambda rank: _all_reduce(6 - rank),
    "dtype": lambda rank: _all_reduce(6, ("float16", "bfloat16")[rank]),
    "operation": lambda rank: _all_reduce(6, op=("sum", "max")[rank]),
    "root": lambda rank: _broadcast(rank),
    "order": lambda rank: _all_gather(3) if rank else _all_reduce(6),
    "exchange": _uneven,
    "count of a message": lambda rank: _message(rank, 3, "float32"),
    "dtype of a message": lambda rank: _message(rank, 4, "int32"),
    "nobody comes": lambda rank: None if rank else Call("Barrier", ()),
    "one has left": lambda rank: None if rank else Call("Barrier", ()),
}


def own_faults(comm, device):
    """{label: (status, text)} of calls that are refused for themselves, before anybody is told."""
    floats, code = room(4, "float32"), CODE
    calls = {
        "operation": Call("AllReduce", ("send", "receive", u64(4), code, 4), floats, floats),
        "dtype": Call("AllReduce", ("send", "receive", u64(4), 10, 0), floats, floats),
        "product": Call("AllReduce", ("send", "receive", u64(4), 11, 1), floats, floats),
        "unknown dtype": Call("AllGather", ("send", "receive", u64(1), 12), floats, floats),
        "null": Call("AllReduce", (None, "receive", u64(4), code, 0), None, floats),
        "too short": Call("AllReduce", ("send", "receive", u64(4), code, 0), floats[:3], floats),
        "no room": Call("AllGather", ("send", "receive", u64(4), code), floats, floats[:2]),
        "host memory": Call(
            "Broadcast", (floats.ctypes.data_as(ctypes.c_void_p), u64(4), code, 0), floats
        ),
        "root": Call("Broadcast", ("receive", u64(4), code, 7), None, floats),
        "to itself": Call("Send", ("send", u64(4), code, 0), floats),
        "own part": Call(
            "AllGatherV",
            ("send", u64(2), "receive", counts([1]), counts([0]), code),
            floats,
            floats,
        ),
        "in place": Call(
            "AlltoAll", ("receive", u64(4), code, "receive", u64(4), code), None, floats
        ),
    }
    found = {label: call.run(comm, device) for label, call in calls.items()}
    found["no communicator"] = Call("Barrier", ()).run(device.stream, device)
    return {label: (status, text) for label, (status, _, text, _) in found.items()}


def connect(root, rank, size):
    """A communicator."""
    comm = handle()
    buffer = ctypes.create_string_buffer(root, ROOT_BYTES)
    status = hccl.HcclCommInitRootInfo(size, buffer, rank, ctypes.byref(comm))
    assert status == SUCCESS, recent_error()
    return comm


def planted(roots, device, rank):
    """{fault: (status, status of the stream, text, asynchronous error, status of a later call)}."""
    found = {}
    for label, root in zip(FAULTS, roots):
        comm = connect(root, rank, 2)
        # A call that is as it should be comes first.
        assert Call("Barrier", ()).run(comm, device)[:2] == (SUCCESS, SUCCESS)
        call = FAULTS[label](rank)
        if call is not None:
            status, done, text, _ = call.run(comm, device)
            error = ctypes.c_int(0)
            assert hccl.HcclGetCommAsyncError(comm, ctypes.byref(error)) == SUCCESS
            later = Call("Barrier", ()).run(comm, device)[0]
            found[label] = status, done, text, error.value, later
        elif label == "nobody comes":
            time.sleep(1.5)
        assert hccl.HcclCommDestroy(comm) == SUCCESS
    return found


def main(rank, size, roots, results):
    """Write what came of all calls."""
    rank, size = int(rank), int(size)
    first, *others = pickle.loads(Path(roots).read_bytes())
    with Device(rank) as device:
        comm = connect(first, rank, size)
        found = {"calls": good_calls(comm, device, rank)}
        assert hccl.HcclCommDestroy(comm) == SUCCESS
        if rank < 2:
            os.environ["HCCL_EXEC_TIMEOUT"] = "1"
            found["faults"] = planted(others, device, rank)
    Path(results).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
