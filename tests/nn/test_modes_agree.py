"""Training in PyNative mode and in a graph stays together, step after step.

Which blocks a query reads is a choice, and where two scores tie within rounding the two modes may
choose differently. So the choice is taken out here: what is left has to agree to rounding.
"""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from mindspore_nsa.nn import branches as module
from mindspore_nsa.ops import nsa_compress_attention
from tests.ops.calls import context_mode

from .cells import ENDS, config, filled, tokens

SETTINGS = config(has_bias=True)
STEPS, TOLERANCE = 18, 5e-6
LENGTHS = np.diff(ENDS, prepend=0)
# Every token selects its own block and two drawn ones, up to its own.
OWN = np.concatenate([np.arange(n) // SETTINGS.select_block_size for n in LENGTHS])[:, None, None]
DRAWN = np.random.default_rng(5).integers(0, 8, (ENDS[-1], SETTINGS.num_kv_heads, 3))
TABLE = Tensor(np.where(np.arange(3) == 0, OWN, DRAWN % (OWN + 1)).astype(np.int32))


def given_blocks(query, key, value, *, statistics, **more):
    """nsa_compress_attention with blocks that no score has chosen."""
    out, _, row_max, row_sum = nsa_compress_attention(query, key, value, **more)
    return out, TABLE, row_max, row_sum


class Loss(nn.Cell):
    """Mean square distance of the layer's output from a target."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, seq, target):
        return ops.square(self.layer(x, seq) - target).mean()


def _train(mode, kind):
    """The loss of every step."""
    with context_mode(mode):
        layer, _ = filled(kind, SETTINGS)
        step = nn.TrainOneStepCell(Loss(layer), nn.Adam(layer.trainable_params(), 0.02))
        step.set_train()
        x, target = Tensor(tokens(SETTINGS)), Tensor(tokens(SETTINGS, seed=2))
        seq = Tensor(ENDS, ms.int64)
        return np.array([float(step(x, seq, target).asnumpy()) for _ in range(STEPS)])


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_losses_of_both_modes(kind, monkeypatch):
    monkeypatch.setattr(module, "compress_attention", given_blocks)
    eager, graph = _train("pynative", kind), _train("graph", kind)
    assert eager[-1] < 0.9 * eager[0]
    np.testing.assert_allclose(graph, eager, rtol=0, atol=TOLERANCE)
