"""One text on two workers: msrun --worker_num=2 --local_worker_num=2 --join=True two_workers.py"""

import os

import mindspore as ms
import numpy as np
from mindspore import ops

from mindspore_nsa import nn

workers = int(os.environ.get("MS_WORKER_NUM", 1))
if "MS_WORKER_NUM" in os.environ:
    ms.communication.init()
groups = nn.parallel_groups(context=workers)
shards = nn.ContextShards(256, groups.context)
config = nn.NSAConfig(32, num_heads=4, num_kv_heads=2, head_dim=16, window_size=64)
ms.set_seed(1)  # the same weights on all workers
layer = nn.NativeSparseAttention(config, context=shards)
if ms.get_context("device_target") == "Ascend":
    layer.to_float(ms.bfloat16)  # its kernels of attention take 16 bits


def error(x, goal, ends):
    return ops.square(layer(x, ends) - goal).mean()


weights = ms.ParameterTuple(layer.trainable_params())
gradient = ms.value_and_grad(error, None, weights)
total = ops.AllReduce(group=groups.replicas.name) if workers > 1 else ops.identity
x, goal = np.random.default_rng(0).standard_normal((2, 256, 32)).astype(np.float32)
ends = shards.lists((100, 256), config)  # two documents of the whole text
for step in range(4):
    loss, slopes = gradient(ms.Tensor(shards.shard(x)), ms.Tensor(shards.shard(goal)), ends)
    for weight, slope in zip(weights, slopes):
        weight.set_data(weight - 20 * total(slope) / workers)
    print(f"step {step} loss {float(total(loss).asnumpy()) / workers:.5f}")
