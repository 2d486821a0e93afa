"""Layers that are built without memory, and filled afterwards."""

import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.nn import DenseAttention, NativeSparseAttention, parallel_groups
from mindspore_nsa.nn.parallel.collectives import Gather, Scatter

from .cells import config, tokens

# A head size and base that no other test of the process has used.
SETTINGS = config(has_bias=True, qk_norm=True, head_dim=12, rope_theta=77.0)

pytestmark = pytest.mark.skipif(
    not hasattr(ms.nn.Cell, "to_empty"), reason="this MindSpore has no Cell.to_empty"
)


@pytest.mark.parametrize("kind", [NativeSparseAttention, DenseAttention])
def test_built_on_the_meta_device(kind):
    """It becomes the layer that is built plainly, and so does the next one."""
    with ms.DeviceCtx("meta"):
        layer = kind(SETTINGS)
    layer.to_empty(device="CPU")
    ms.set_seed(3)
    layer.reset_parameter()
    ms.set_seed(3)
    plain = kind(SETTINGS)
    ours, expected = list(layer.get_parameters()), list(plain.get_parameters())
    assert [p.name for p in ours] == [p.name for p in expected]
    for a, b in zip(ours, expected):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy(), err_msg=a.name)
    x = Tensor(tokens(SETTINGS)[None])
    np.testing.assert_array_equal(layer(x).asnumpy(), plain(x).asnumpy())


def test_collectives():
    """Which rows are a worker's own is known where the layer was built without memory, too."""
    with ms.DeviceCtx("meta"):
        group = parallel_groups().tensor
        gather, scatter = Gather(group), Scatter(group)
    assert gather.mine.asnumpy().tolist() == [[1]] and scatter.own.asnumpy().tolist() == [0]


CODE = """
import mindspore as ms
with ms.DeviceCtx("meta"):
    from mindspore_nsa.nn import NativeSparseAttention, NSAConfig
    config = NSAConfig(8, 2, 1, 4, compress_block_size=4, compress_stride=2, select_block_size=4,
                       select_block_count=3)
    NativeSparseAttention(config)
layer, x = NativeSparseAttention(config), ms.ops.ones((2, 9, 8))
cells = ms.Tensor(shape=[None, 8], dtype=ms.float32), ms.Tensor(shape=[None], dtype=ms.int64)
for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
    ms.set_context(mode=mode)
    print(layer(x).asnumpy().shape)
layer.set_inputs(*cells)
print(layer(x.reshape(18, 8), ms.Tensor([9, 18])).asnumpy().shape)
"""


def test_imported_under_it():
    """The constants of the modules are those of the real device, too."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["(2, 9, 8)", "(2, 9, 8)", "(18, 8)"]
