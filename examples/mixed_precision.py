"""bfloat16 compute with float32 weights, by MindSpore's amp."""

import mindspore as ms
import numpy as np
from mindspore import amp, nn, ops

from mindspore_nsa.nn import NativeSparseAttention, NSAConfig

ms.set_seed(0)
layer = NativeSparseAttention(
    NSAConfig(64, num_heads=4, num_kv_heads=1, head_dim=16, window_size=32)
)
# bfloat16 has float32's range and needs no loss scale; float16 does: amp.DynamicLossScaler.
net = amp.auto_mixed_precision(layer, "O3", ms.bfloat16)
optimizer = nn.SGD(layer.trainable_params(), learning_rate=20.0)
rng = np.random.default_rng(0)
x, goal = (ms.Tensor(rng.standard_normal((2, 96, 64)).astype(np.float32)) for _ in range(2))


def loss(x, goal):
    return ops.square(net(x).astype(ms.float32) - goal).mean()


step = ms.value_and_grad(loss, None, optimizer.parameters)
for i in range(6):
    value, gradients = step(x, goal)
    optimizer(gradients)
    print(f"step {i} loss {float(value):.4f}, weights {gradients[0].dtype}")
