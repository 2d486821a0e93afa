"""Go on from a dense checkpoint: the sparse layer begins as the dense one."""

import tempfile
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import nn

from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, NSAConfig

config = NSAConfig(64, 4, 2, 16, select_block_size=32, select_block_count=4)


class Model(nn.Cell):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention
        self.head = nn.Dense(64, 10)

    def construct(self, x):
        return self.head(self.attention(x))


path = str(Path(tempfile.mkdtemp()) / "model.ckpt")
ms.save_checkpoint(Model(DenseAttention(config)), path)  # stands for the one that you have
model = Model(DenseAttention(config))
ms.load_checkpoint(path, model)  # into the dense model first
x = ms.Tensor(np.random.default_rng(0).standard_normal((1, 256, 64)), ms.float32)
before = model(x).asnumpy()
model.attention = NativeSparseAttention.from_dense(model.attention)
after = model(x).asnumpy()
known = config.select_block_size * config.select_block_count
print(f"largest difference up to token {known}: {np.abs(after - before)[:, :known].max():.1e}")
print(f"largest difference beyond: {np.abs(after - before)[:, known:].max():.1e}")
ms.save_checkpoint(model, path)  # train on from here
loaded = Model(NativeSparseAttention(model.attention.config))  # which has gating "residual"
ms.load_checkpoint(path, loaded)
print(f"largest difference of the model loaded again: {abs(loaded(x) - model(x)).max().item():.1e}")
