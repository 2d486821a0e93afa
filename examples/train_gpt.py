"""Train a small GPT on bytes: NativeSparseAttention where dense attention would stand."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from mindspore_nsa.nn import NativeSparseAttention, NSAConfig

config = NSAConfig(64, num_heads=4, num_kv_heads=1, head_dim=16, window_size=32)


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.norms = nn.CellList([nn.LayerNorm([64]) for _ in range(2)])
        self.attention = NativeSparseAttention(config)
        self.mlp = nn.SequentialCell(nn.Dense(64, 256), nn.GELU(), nn.Dense(256, 64))

    def construct(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


ms.set_seed(0)
model = nn.SequentialCell(nn.Embedding(256, 64), Block(), Block(), nn.Dense(64, 256))
optimizer = nn.AdamWeightDecay(model.trainable_params(), 3e-3)
text = np.frombuffer(b"A query reads windows, blocks and the last tokens. " * 40, np.uint8)


def loss_of(x, y):
    return ops.cross_entropy(model(x).reshape(-1, 256), y.reshape(-1))


step = ms.value_and_grad(loss_of, None, optimizer.parameters)
for i in range(15):
    at = np.random.default_rng(i).integers(0, 1800, (4, 1)) + np.arange(129)
    rows = ms.Tensor(text[at].astype(np.int32))
    loss, gradients = step(rows[:, :-1], rows[:, 1:])
    optimizer(gradients)
    print(f"step {i} loss {float(loss):.3f}")
