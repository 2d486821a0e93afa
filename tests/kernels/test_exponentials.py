"""The exponential of scores, from 0 to where it is exactly 0, on both ways through the softmax."""

import numpy as np
import pytest

from mindspore_nsa import _native

pytestmark = pytest.mark.usefixtures("isa")

QUERIES = 4096
# ln(2^-126), where the exponential becomes 0, and by how much rounding may move that.
LOWEST, UNSURE = -87.33654475, 2e-5


def _probabilities(scores, keys):
    """exp(score) / (1 + exp(score)), as FlashAttentionScore computes it.

    Key 0 has the score 0, key 1 that of the query, the others none that counts.
    """
    query = scores[None, None, :, None].astype(np.float32)
    key = np.full((1, 1, keys, 1), 1e6, np.float32)
    key[..., :2, 0] = 0, 1
    value = np.zeros_like(key)
    value[..., 1, 0] = 1
    attrs = {"head_num": 1, "input_layout": "BNSD", "scalar_value": 1.0, "sparse_mode": 0}
    inputs = {"query": query, "key": key, "value": value}
    names = [x["name"] for x in _native.schema("FlashAttentionScore")["inputs"]]
    outputs = _native.run("FlashAttentionScore", [inputs.get(x) for x in names], attrs)
    return outputs[0]


# A whole step of keys, and one that is cut.
@pytest.mark.parametrize("keys", [128, 100])
def test_exponentials(keys):
    # All sixteenths of a power of two many times over, and their halves, where rounding decides.
    scores = -np.linspace(2e-4, 90, QUERIES, dtype=np.float32)
    scores[::8] = -np.log(2) * np.arange(len(scores[::8])) / 32 - 2e-4
    found = _probabilities(scores, keys).reshape(-1).astype(np.float64)
    exact = scores.astype(np.float64)
    expected = np.exp(exact) / (1 + np.exp(exact))
    zero, sure = exact < LOWEST - UNSURE, exact > LOWEST + UNSURE
    assert zero.any() and (found[zero] == 0).all()
    # The exponent is rounded twice before it is a power of two.
    error = np.abs(found[sure] / expected[sure] - 1)
    bound = 2.5e-7 + 1.5 * np.abs(exact[sure]) * 2.0**-24
    assert (error <= bound).all(), (error / bound).max()
