"""The attention layers, forward and backward, in both modes, against the reference.

Imports nothing but the installed package, so that it also runs in the environment of the oldest
MindSpore that is supported.
"""

import mindspore as ms
import numpy as np
import pytest

from mindspore_nsa import reference
from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, NSAConfig

CONFIG = NSAConfig(
    hidden_size=24, num_heads=4, num_kv_heads=2, head_dim=16, compress_block_size=16,
    compress_stride=8, select_block_size=16, select_block_count=3, window_size=20,
    has_bias=True)  # fmt: skip
SEQ = (40, 96)
LAYERS = {
    NativeSparseAttention: reference.native_sparse_attention_grad,
    DenseAttention: reference.dense_attention_grad,
}
TOLERANCE = {"float32": 1e-5, "bfloat16": 5e-2}


@pytest.fixture(params=["PyNative", "graph"])
def mode(request):
    ms.set_context(mode=ms.PYNATIVE_MODE if request.param == "PyNative" else ms.GRAPH_MODE)
    yield request.param
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("cell", LAYERS)
def test_layer(cell, dtype, mode):
    rng = np.random.default_rng(0)
    layer = cell(CONFIG)
    for p in layer.trainable_params():
        p.set_data(ms.Tensor(rng.standard_normal(p.shape).astype(np.float32) / 4))
    values = {p.name: p.asnumpy() for p in layer.trainable_params()}
    names = [p.name for p in layer.trainable_params()]
    x, dout = (rng.standard_normal((96, 24)).astype(np.float32) for _ in range(2))
    if dtype == "bfloat16":
        layer = ms.amp.auto_mixed_precision(layer, "O2", dtype=ms.bfloat16)
    weight, seq = ms.Tensor(dout), ms.Tensor(SEQ, ms.int64)

    def total(x):
        return (layer(x, seq).astype(ms.float32) * weight).sum()

    dx, grads = ms.grad(total, 0, layer.trainable_params())(ms.Tensor(x))
    expected_dx, expected = LAYERS[cell](dout, x, values, CONFIG, actual_seq_len=SEQ)
    for ours, e in [(dx, expected_dx), *((g, expected[n]) for n, g in zip(names, grads))]:
        assert np.abs(e).max() > 0
        assert np.abs(ours.asnumpy() - e).max() <= TOLERANCE[dtype] * np.abs(e).max()
