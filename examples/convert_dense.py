"""Go on from a dense checkpoint: the sparse layer begins as the dense one."""

import tempfile
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn

from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, NSAConfig

config = NSAConfig(
    64, num_heads=4, num_kv_heads=2, head_dim=16, select_block_size=32, select_block_count=4
)


class Model(nn.Cell):
    def __init__(self):
        super().__init__()
        self.attention = DenseAttention(config)
        self.head = nn.Dense(64, 10)

    def construct(self, x):
        return self.head(self.attention(x))


path = str(Path(tempfile.mkdtemp()) / "dense.ckpt")
ms.save_checkpoint(Model(), path)  # stands for the one that you have

model = Model()
ms.load_checkpoint(path, model)  # into the dense model first
x = ms.Tensor(np.random.default_rng(0).standard_normal((1, 256, 64)), ms.float32)
before = model(x).asnumpy()
model.attention = NativeSparseAttention.from_dense(model.attention)
after = model(x).asnumpy()
known = config.select_block_size * config.select_block_count
print(f"largest difference up to token {known}: {np.abs(after - before)[:, :known].max():.1e}")
print(f"largest difference beyond: {np.abs(after - before)[:, known:].max():.1e}")
ms.save_checkpoint(model, path)  # train on from here
