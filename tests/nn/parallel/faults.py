"""Errors of workers that do not fit together, or whose peer ends: `msrun ... faults.py END`.

With "raise" every fault is an error on all workers, of which each prints the text; then all go on,
until worker 1 ends for good by an error while the other waits for it. With "kill" it ends at once.
"""

import os
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
if __name__ == "__main__":
    sys.path.append(str(ROOT))

import mindspore as ms  # noqa: E402
import numpy as np  # noqa: E402
from mindspore import Tensor  # noqa: E402
from mindspore.communication import init  # noqa: E402

from mindspore_nsa import nn  # noqa: E402
from tests.nn.parallel.recorded import recording  # noqa: E402

SIZES = {"hidden_size": 16, "num_heads": 4, "num_kv_heads": 2, "head_dim": 8, "window_size": 8}


def raised(name, call):
    """Print the error of a call."""
    try:
        call()
    except (TypeError, ValueError, RuntimeError) as error:
        print(f"FAULT {name}: {type(error).__name__}: {error}", flush=True)
    else:
        print(f"FAULT {name}: nothing", flush=True)


def main():
    """Faults, if the last one is an error, and the last one."""
    init()
    rank, size = ms.communication.get_rank(), ms.communication.get_group_size()
    groups = nn.parallel_groups(context=size)
    config = nn.NSAConfig(**SIZES)
    shards = nn.ContextShards(64, groups.context)
    layer = nn.NativeSparseAttention(config, context=shards)
    x = Tensor(np.ones((64 // size, 16), np.float32))
    if sys.argv[1] == "raise":
        faults(rank, size, groups, config, shards, layer, x)
    layer(x, (64,)).asnumpy()
    if rank == 1:
        print("ENDS AT", time.time(), os.getpid(), flush=True)
        if sys.argv[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("this worker has nothing more to say")
    layer(x, (64,)).asnumpy()


def faults(rank, size, groups, config, shards, layer, x):
    """All but the last one, each on both workers."""
    tokens = 64 + 64 * rank
    raised("tokens", lambda: nn.ContextShards(tokens, groups.context))
    raised("order", lambda: nn.ContextShards(64, groups.context, ("contiguous", "head_tail")[rank]))
    raised("multiple", lambda: nn.ContextShards(63, groups.context))
    other = nn.NSAConfig(**{**SIZES, "window_size": 8 + rank})
    raised("config", lambda: nn.NativeSparseAttention(other, context=shards))
    three = nn.NSAConfig(**{**SIZES, "num_heads": 3, "num_kv_heads": 3})
    tensor = nn.parallel_groups(tensor=size).tensor
    raised("heads", lambda: nn.NativeSparseAttention(three, tensor_group=tensor))
    raised("grid", lambda: nn.parallel_groups(context=size, tensor=2))
    raised("blocks", lambda: layer.selected_blocks(x, (64,)))
    mask = Tensor(np.zeros((1, 64 // size), bool))
    raised("padding", lambda: layer(x[None], key_padding_mask=mask))
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
    parts = nn.shard_parameters(layer.parameters_dict(), layer, tensor)
    if rank == 1:
        parts.pop("query.weight")
    raised("gather", lambda: nn.gather_parameters(parts, layer, tensor))
    given = Tensor(np.random.default_rng(0).standard_normal(x.shape).astype(np.float32))
    near = []
    for workers in ({"context": shards}, {"tensor_group": tensor}):
        # 64 tokens: the sparse layer reads every block.
        ends = (64,) if "context" in workers else (len(given),)
        dense = nn.DenseAttention(config, **workers)
        sparse = nn.NativeSparseAttention.from_dense(dense)
        near.append(np.allclose(sparse(given, ends), dense(given, ends), rtol=0, atol=1e-5))
    print("FAULT from_dense:", *near, flush=True)
    with recording("Ascend"):
        layer = nn.NativeSparseAttention(config, context=shards)
        fits, differs = (layer(x, ends).asnumpy() for ends in ((64,), (30 + rank, 64)))
    print("FAULT ascend:", np.isfinite(fits).all(), np.isnan(differs).all(), flush=True)


if __name__ == "__main__":
    main()
