"""Gradients of softmax_sum on target ascend_twin, as tests/ops/test_log_sum_exp.py has them."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import ops

import mindspore_nsa
from tests.common.merging import HALVES, OPERATORS, T, logarithm, merged, operands, slopes, whole
from tests.ops.calls import context_mode, in_mode, to_numpy

STEP = 2.0**-10  # of float16


def close(ours, expected):
    for a, b in zip(ours, expected, strict=True):
        a, b = (x.astype(np.float32) for x in (a, b))
        assert b.any() and np.abs(a - b).max() <= 4 * STEP * np.abs(b).max()


# sparse_flash_attention has no Ascend kernel.
WITH_KERNELS = [name for name in OPERATORS if name != "sparse"]


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_merged_halves_have_the_gradients_of_the_whole(name):
    tensors = operands(ms.float16)
    expected = to_numpy(slopes(whole(OPERATORS[name]))(*tensors))
    with mindspore_nsa.target("ascend_twin"):
        close(to_numpy(slopes(merged(OPERATORS[name], HALVES))(*tensors)), expected)


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_penalty_in_a_graph(name):
    """Also of rows that see nothing, whatever comes for them."""

    def penalty(query, key, value):
        _, top, total = OPERATORS[name](query, key, value, 80, T)
        seen = logarithm(top[80:], total[80:])
        return ops.square(seen).sum() + (total[:80] * 3.0).sum()

    gradient, tensors = ms.grad(penalty, (0, 1)), operands(ms.float16)
    expected = to_numpy(gradient(*tensors))
    with mindspore_nsa.target("ascend_twin"), context_mode("graph"):
        ours = to_numpy(in_mode("graph", gradient)(*tensors))
    close(ours, expected)
    assert not ours[0][:80].any()
