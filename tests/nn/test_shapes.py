"""Every length, batched and packed, in both modes."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, NSAConfig
from tests.ops.calls import context_mode

CONFIG = NSAConfig(
    hidden_size=32,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    value_head_dim=6,
    compress_block_size=8,
    compress_stride=4,
    select_block_size=8,
    select_block_count=3,
    window_size=16,
)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("cell", [NativeSparseAttention, DenseAttention])
def test_packed_is_batched(cell, mode):
    x = np.random.default_rng(0).standard_normal((2, 40, 32)).astype(np.float32)
    packed = Tensor(x.reshape(80, 32))
    with context_mode(mode):
        layer = cell(CONFIG)
        batched = layer(Tensor(x)).asnumpy()
        by_tuple = layer(packed, (40, 80)).asnumpy()
        by_tensor = layer(packed, Tensor([40, 80], ms.int64)).asnumpy()
    np.testing.assert_array_equal(by_tuple, batched.reshape(80, 32))
    np.testing.assert_array_equal(by_tensor, by_tuple)
    assert batched.any()


@pytest.mark.parametrize("cell", [NativeSparseAttention, DenseAttention])
def test_every_length(cell):
    layer = cell(CONFIG)
    x = np.random.default_rng(0).standard_normal((2, 17, 32)).astype(np.float32)
    whole = layer(Tensor(x)).asnumpy()
    for length in range(1, 17):
        part = layer(Tensor(x[:, :length])).asnumpy()
        np.testing.assert_allclose(part, whole[:, :length], atol=1e-6)
