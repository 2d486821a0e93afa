"""What workers that do not fit together see: `msrun ... faults.py [end]`.

Every fault is an error on all workers, of which each prints the text; then all go on. With "end"
worker 1 ends for good while the other waits for it: "raise", or "kill".
"""

import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.append(str(ROOT))

import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import Tensor, ops  # noqa: E402
from mindspore.communication import init  # noqa: E402

from mindspore_nsa import nn  # noqa: E402

SIZES = {"hidden_size": 16, "num_heads": 4, "num_kv_heads": 2, "head_dim": 8, "window_size": 8}


def raised(name, call):
    """Print the error of a call."""
    try:
        call()
    except (TypeError, ValueError, RuntimeError) as error:
        print(f"FAULT {name}: {type(error).__name__}: {error}", flush=True)
    else:
        print(f"FAULT {name}: nothing", flush=True)


class Bytes:
    """A collective that counts what a worker receives, as a ring of workers has it."""

    def __init__(self, collective, size):
        self.collective, self.size, self.received = collective, size, 0

    def __call__(self, x):
        """The collective's result."""
        sums = isinstance(self.collective, ops.AllReduce)
        share = 2 * (self.size - 1) / self.size if sums else self.size - 1
        self.received += x.nbytes * share
        return self.collective(x)


def count(layer, shards, x):
    """(bytes of a forward, of a backward), but for the comparison of calls."""
    counted = []
    for _, cell in layer.cells_and_names():
        if hasattr(cell, "collective") and cell is not layer.context.agreement.gather:
            cell.collective = Bytes(cell.collective, shards.group.size)
            counted.append(cell.collective)
    ends = (30, 64)

    def loss(x):
        return layer(x, ends).sum()

    layer(x, ends).asnumpy()
    forward = sum(c.received for c in counted)
    for c in counted:
        c.received = 0
    ms.grad(loss)(x).asnumpy()
    return forward, sum(c.received for c in counted) - forward


def main():
    """All faults, or the last one."""
    init()
    rank, size = ms.communication.get_rank(), ms.communication.get_group_size()
    groups = nn.parallel_groups(context=size)
    config = nn.NSAConfig(**SIZES)
    shards = nn.ContextShards(64, groups.context)
    layer = nn.NativeSparseAttention(config, context=shards)
    x = Tensor(np.ones((64 // size, 16), np.float32))
    if len(sys.argv) > 1:
        layer(x, (64,)).asnumpy()
        if rank == 1 and sys.argv[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1:
            raise RuntimeError("this worker has nothing more to say")
        layer(x, (64,)).asnumpy()
        return
    tokens = 64 + 64 * rank
    raised("tokens", lambda: nn.ContextShards(tokens, groups.context))
    raised("order", lambda: nn.ContextShards(64, groups.context, ("contiguous", "head_tail")[rank]))
    raised("multiple", lambda: nn.ContextShards(63, groups.context))
    other = nn.NSAConfig(**{**SIZES, "window_size": 8 + rank})
    raised("config", lambda: nn.NativeSparseAttention(other, context=shards))
    three = nn.NSAConfig(**{**SIZES, "num_heads": 3, "num_kv_heads": 3})
    tensor = nn.parallel_groups(tensor=size).tensor
    raised("heads", lambda: nn.NativeSparseAttention(three, tensor_group=tensor))
    for name, mode in (("pynative", ms.PYNATIVE_MODE), ("graph", ms.GRAPH_MODE)):
        ms.set_context(mode=mode)
        raised(f"lists {name}", lambda: layer(x, (30 + rank, 64)).asnumpy())
        raised(f"rows {name}", lambda: layer(x[:5], (64,)).asnumpy())
        raised(f"cache {name}", lambda: layer(x, (64,), (x,)).asnumpy())
        mixed = x.astype((ms.float32, ms.bfloat16)[rank])
        raised(f"dtype {name}", lambda mixed=mixed: layer(mixed, (64,)).asnumpy())
        # A graph that failed when it ran does not run again.
        if name == "pynative":
            assert layer(x, (64,)).shape == x.shape
    raised("new_cache", lambda: layer.new_cache(1, 8))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    print("BYTES", *count(layer, shards, x), flush=True)


if __name__ == "__main__":
    main()
