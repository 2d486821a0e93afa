"""Several documents in one row: none reads another, and nothing is padded."""

import mindspore as ms
import numpy as np
from mindspore import ops

from mindspore_nsa.nn import NativeSparseAttention, NSAConfig

ms.set_seed(0)
layer = NativeSparseAttention(
    NSAConfig(64, num_heads=4, num_kv_heads=2, head_dim=16, window_size=32)
)
rng = np.random.default_rng(0)
documents = [rng.standard_normal((n, 64)).astype(np.float32) for n in (70, 1, 130)]
packed = ms.Tensor(np.concatenate(documents))
# A Tensor: other lengths need no other graph, and an empty document fills a place.
ends = ms.Tensor(np.cumsum([len(document) for document in documents]))


def loss(x, ends):
    return ops.square(layer(x, ends)).mean()


weights = ms.ParameterTuple(layer.trainable_params())
value, gradients = ms.value_and_grad(loss, None, weights)(packed, ends)
print(f"loss {float(value):.4f}, {len(gradients)} gradients")
together = layer(packed, ends).asnumpy()
alone = np.concatenate([layer(ms.Tensor(document)[None])[0].asnumpy() for document in documents])
print(f"largest difference from each document alone: {np.abs(together - alone).max():.1e}")
