"""The documented ways to use a layer print nothing: whoever sees a warning looks for a mistake."""

from tests.common.children import python

PROGRAM = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, NSAConfig

config = NSAConfig(hidden_size=32, num_heads=2, num_kv_heads=1, head_dim=16)
x, ends = Tensor(np.random.randn(90, 32).astype(np.float32)), Tensor([50, 90])


class Net(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, ends):
        return self.layer(x, ends).astype(ms.float32).sum()


ms.set_context(mode=ms.GRAPH_MODE)
for kind in (NativeSparseAttention, DenseAttention):
    layer = kind(config)
    net = Net(layer)
    value, slopes = ms.value_and_grad(net, None, layer.trainable_params())(x, ends)
    print(value.shape, len(slopes))
    if kind is DenseAttention:
        continue
    padding = Tensor(np.arange(90).reshape(2, 45) < 5)
    print(layer(x.reshape(2, 45, 32), key_padding_mask=padding).shape)
    cache = layer.new_cache(2, 128)
    for tokens in (x, x[:2]):
        print(layer(tokens.reshape(2, -1, 32), cache=cache).shape)
    marked = ms.amp.auto_mixed_precision(Net(kind(config)), "O2", dtype=ms.bfloat16)
    print(marked(x, ends).shape)
layer = NativeSparseAttention(config)
layer.set_inputs(Tensor(shape=(None, 32), dtype=ms.float32), Tensor(shape=(None,), dtype=ms.int64))
print(layer(x, ends).shape, layer(x[:40], Tensor([40])).shape)
ms.set_context(mode=ms.PYNATIVE_MODE)
print(layer.selected_blocks(x, ends).shape)
"""


def test_stderr_is_empty():
    done = python(PROGRAM, GLOG_v="2", timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and done.stdout.count("\n") == 8
