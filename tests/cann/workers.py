"""Layers of several workers on MindSpore's device Ascend: one worker of two, or of four.

python -m mindspore_nsa.twin run -m mindspore.parallel.cluster.run ... workers.py FOLDER

writes what it has of every case to FOLDER. The first two also compute the whole layer, each in one
dtype.
"""

import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from mindspore.communication import comm_func, get_rank, init

from mindspore_nsa import nn
from mindspore_nsa.nn.parallel.collectives import Sum
from mindspore_nsa.nn.precision import Projection
from model_zoo_demo import config as configs
from model_zoo_demo import train
from model_zoo_demo.worker import Worker
from tests.ascendc.test_target_layers import ENDS, HALVES, SETTINGS, data
from tests.nn.cells import differentiated, filled
from tests.ops.calls import context_mode

# (mode, dtype, workers that share a text, workers that share the heads, order)
CASES = {
    2: (
        ("pynative", "float16", "contiguous", 2, 1),
        ("pynative", "bfloat16", "head_tail", 2, 1),
        ("pynative", "bfloat16", "contiguous", 1, 2),
        ("graph", "float16", "head_tail", 2, 1),
        ("graph", "bfloat16", "contiguous", 2, 1),
        ("graph", "float16", "contiguous", 1, 2),
    ),
    4: (
        ("pynative", "bfloat16", "contiguous", 4, 1),
        ("pynative", "float16", "head_tail", 2, 2),
        ("graph", "float16", "head_tail", 2, 2),
    ),
}
ROOT = Path(__file__).resolve().parents[2]
TOKENS = ENDS[-1]
# Two workers' parts of a product; the first is beyond float16, the sum is not.
PARTS = 96000.0, -46400.0


def part(case):
    """Return this worker's (output, gradient of x, gradients of parameters)."""
    mode, dtype, order, context, tensor = case
    groups = nn.parallel_groups(context=context, tensor=tensor)
    shards = nn.ContextShards(TOKENS, groups.context, order)
    layer = nn.NativeSparseAttention(SETTINGS, context=shards, tensor_group=groups.tensor)
    _, drawn = filled("sparse", SETTINGS)
    whole = {name: Tensor(value.astype(np.float32)) for name, value in drawn.items()}
    own = nn.shard_parameters(whole, layer, groups.tensor)
    for p in layer.trainable_params():
        p.set_data(Tensor(own[p.name]))
    x = shards.shard(data("float32", 1).asnumpy())
    upstream = shards.shard(data("float32", 2).asnumpy())
    with context_mode(mode):
        given = Tensor(x).astype(getattr(ms, dtype))
        return differentiated(layer)(given, ENDS, Tensor(upstream))


def one_worker(dtype):
    """The whole layer, computed here alone."""
    layer, _ = filled("sparse", SETTINGS)
    with context_mode("pynative"):
        return differentiated(layer)(data(dtype, 1), ENDS, data("float32", 2))


def product_of_parts(rank):
    """A product of which each worker has a part."""
    group = nn.parallel_groups(tensor=2).tensor
    inner = 64
    projection = Projection(SETTINGS, inner, 3)
    projection.weight.set_data(Tensor(np.full((3, inner), PARTS[rank] / inner, np.float32)))
    projection.bias.set_data(Tensor(np.zeros(3, np.float32)))
    projection.sum_by(Sum(group))
    return projection.product(Tensor(np.ones((5, inner), np.float16)), ms.float16).asnumpy()


def demo(folder, share=Worker):
    """Write the log of the demo's training, documents apart; `share` makes this worker's part."""
    config = replace(configs.load(train.CONFIGS / "twin.json"), steps=3, eval_every=3)
    with context_mode("pynative"):
        train.train(config, folder, [ROOT / "docs"], worker=share(config), say=lambda _: None)


def half_a_text(config):
    """The part of one of two workers that share a text."""
    return Worker(config, nn.parallel_groups(context=2), "head_tail")


def counts_that_differ(rank):
    """The error of a sum of four elements on one worker and of five on the other."""
    try:
        ops.AllReduce()(Tensor(np.ones(4 + rank, np.float32))).asnumpy()
    except RuntimeError as error:
        return str(error)
    return ""


def main(folder):
    """Write this worker's results."""
    ms.set_device("Ascend")
    init()
    rank, size = get_rank(), ms.communication.get_group_size()
    found = {}
    for case in CASES[size]:
        found[case] = part(case)
        print("done", case, flush=True)
    if rank < 2:
        found["one"] = one_worker(HALVES[rank])
    if size == 2:
        found["product"] = product_of_parts(rank)
        comm_func.barrier()
        found["called"] = Path(os.environ["ASCENDC_TWIN_CALLED"]).read_text()
        comm_func.barrier()
        demo(Path(folder, "demo"), half_a_text)
        # It breaks the communicator, so it comes last.
        found["error"] = counts_that_differ(rank)
    Path(folder, f"found.{rank}").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
