"""Generate from prompts of different lengths: one cache, one row for each."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from mindspore_nsa.nn import NativeSparseAttention, NSAConfig

config = NSAConfig(64, num_heads=4, num_kv_heads=1, head_dim=16, window_size=32)


class Model(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(256, 64), nn.Dense(64, 256)
        self.attention = NativeSparseAttention(config)

    def construct(self, tokens, ends, cache):
        return self.head(self.attention(self.embedding(tokens), ends, cache=cache))


ms.set_seed(0)
model = Model()
prompts = [b"Sparse attention reads", b"A window", b"The blocks with the best scores"]
cache = model.attention.new_cache(batch=len(prompts), capacity=64)
tokens = ms.Tensor(np.frombuffer(b"".join(prompts), np.uint8).astype(np.int32))
ends = np.cumsum([len(prompt) for prompt in prompts])  # the prompts lie one after another
made = []
for _ in range(8):
    logits = model(tokens, ms.Tensor(ends), cache)
    tokens = ops.argmax(logits[ms.Tensor(ends - 1)], -1).astype(ms.int32)
    made.append(tokens.asnumpy())
    ends = np.arange(1, len(prompts) + 1)  # from now on one token of each row
print("tokens of the rows:", cache.lengths)
for prompt, row in zip(prompts, np.stack(made, 1)):
    print(prompt.decode(), row.tolist())
