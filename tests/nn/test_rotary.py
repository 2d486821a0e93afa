"""The angles of the rotary embedding, far beyond the lengths that the other tests use."""

import contextlib

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindspore_nsa.nn import RotaryAngles

# On both sides of the step between the coarse angles, and up to the last position.
POSITIONS = (0, 1, 2047, 2048, 2049, 4097, 65536, 1_000_001, 10_000_019, 2**24 - 1)


@pytest.mark.parametrize("dtype", [ms.int32, ms.int64])
@pytest.mark.parametrize("theta", [100.0, 10000.0, 500000.0])
def test_far_positions(theta, dtype):
    """Sines and cosines are float64's: an angle in float32 would be off by up to 1."""
    dim = 16
    found = RotaryAngles(dim, theta)(Tensor(POSITIONS, dtype))
    angles = np.outer(POSITIONS, theta ** (-np.arange(0, dim, 2) / dim))
    cos, sin = np.cos(angles), np.sin(angles)
    expected = np.concatenate((cos, cos), 1), np.concatenate((-sin, sin), 1)
    for ours, e in zip(found, expected):
        assert ours.shape == (len(POSITIONS), 1, dim)
        np.testing.assert_allclose(ours.asnumpy()[:, 0], e, rtol=0, atol=3e-7)


def test_a_position_past_the_last():
    with pytest.raises(RuntimeError, match="Gather"):
        RotaryAngles(4, 100.0)(Tensor([2**24], ms.int64))[0].asnumpy()
    # Both tables are read: in PyNative the second error may come to whoever waits next.
    with contextlib.suppress(RuntimeError):
        (Tensor([1.0]) + 1).asnumpy()
