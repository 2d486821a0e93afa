"""Collectives that write down how they are called, and those of Ascend made of a CPU's.

`recording` puts them in the place of MindSpore's for layers that are made meanwhile, in PyNative
mode. As on Ascend, the layers use AllGather in every group, ReduceScatter and AlltoAllV.
"""

import contextlib

import numpy as np
from mindspore import Tensor, communication, ops

from mindspore_nsa.nn.parallel import collectives


class Recorded:
    """A collective of one group; `calls` gets (name, group, shape, dtype, sent, received)."""

    def __init__(self, name, group, calls, compute):
        self.name, self.group, self.calls, self.compute = name, group, calls, compute

    def __call__(self, x, *lists):
        """Record the call and return the collective's result."""
        call = [self.name, self.group, list(x.shape), str(x.dtype), *map(list, lists)]
        self.calls.append(call)
        return self.compute(x, *lists)


def _rank_and_size(group):
    return communication.get_rank(group), communication.get_group_size(group)


def _reduce_scatter(group):
    total, (rank, size) = ops.AllReduce(group=group), _rank_and_size(group)
    return lambda x: Tensor(np.split(total(x).asnumpy(), size)[rank])


def _gather(group):
    """AllGather over all workers; else AllReduce of an operand that one worker has."""
    rank, size = _rank_and_size(group)
    if size == communication.get_group_size():
        return ops.AllGather(group=group)
    total = ops.AllReduce(group=group)

    def call(x):
        whole = np.zeros((size, *x.shape), np.float32)
        whole[rank] = x.asnumpy()
        return total(Tensor(whole)).reshape(-1, *x.shape[1:])

    return call


def _all_to_all(group):
    gather, (rank, size) = _gather(group), _rank_and_size(group)

    def call(x, sent, received):
        sizes = gather(Tensor(np.array([[*sent, len(x)]], np.float32))).asnumpy().astype(int)
        padded = np.zeros((1, sizes[:, -1].max()), np.float32)
        padded[0, : len(x)] = x.asnumpy()
        rows, parts = gather(Tensor(padded)).asnumpy(), []
        assert sum(sent) == len(x)
        for other in range(size):
            first = sizes[other, :rank].sum()
            parts.append(rows[other, first : first + sizes[other, rank]])
            assert len(parts[-1]) == received[other]
        return Tensor(np.concatenate(parts))

    return call


class Ops:
    """mindspore.ops with such collectives."""

    def __init__(self, device, calls):
        self.device, self.calls = device, calls

    def __getattr__(self, name):
        return getattr(ops, name)

    def _made(self, name, group, compute):
        return Recorded(name, group, self.calls, compute)

    def AllReduce(self, group):  # noqa: N802
        """MindSpore's."""
        return self._made("AllReduce", group, ops.AllReduce(group=group))

    def AllGather(self, group):  # noqa: N802
        """MindSpore's, and for Ascend in smaller groups, too."""
        compute = _gather(group) if self.device == "Ascend" else ops.AllGather(group=group)
        return self._made("AllGather", group, compute)

    def ReduceScatter(self, group):  # noqa: N802
        """Ascend's."""
        return self._made("ReduceScatter", group, _reduce_scatter(group))

    def AlltoAllV(self, group):  # noqa: N802
        """Ascend's."""
        return self._made("AlltoAllV", group, _all_to_all(group))


@contextlib.contextmanager
def recording(device):
    """Gives a list that gets the calls of layers made meanwhile, as a device has them."""
    calls = []
    kept = collectives.ops, collectives.on_cpu
    collectives.ops, collectives.on_cpu = Ops(device, calls), lambda: device == "CPU"
    try:
        yield calls
    finally:
        collectives.ops, collectives.on_cpu = kept


def received(calls, workers, rank):
    """Bytes that a worker of a ring gets of some calls."""
    total = 0
    for name, _, shape, dtype, *lists in calls:
        size = np.dtype(dtype.lower()).itemsize
        whole = int(np.prod(shape)) * size
        if name == "AlltoAllV":
            total += (sum(lists[1]) - lists[1][rank]) * size
        else:
            share = {"AllGather": workers, "ReduceScatter": 1, "AllReduce": 2}[name]
            total += whole * share * (workers - 1) // workers
    return total
