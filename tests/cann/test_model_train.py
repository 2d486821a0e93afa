"""Training on device Ascend: loss scales, mixed precision, checkpoints, recomputation."""

import numpy as np
import pytest

from .judge import collected
from .training import USES, trained


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return collected("training", USES, tmp_path_factory.mktemp("training"))


def losses(steps):
    return [step[0] for step in steps]


def test_losses(found):
    """They are near float32's on a CPU, but for the rounding of 16 bits; parameters are float32."""
    expected = losses(trained())
    for dtype, bound in (("float16", 1e-3), ("bfloat16", 1e-2)):
        assert losses(found[dtype]) == pytest.approx(expected, rel=bound)
        assert losses(found[dtype]) != expected
    assert found["level_O3"] == found["float16"]
    assert np.ptp(expected) > 1


def test_loss_scales(found, tmp_path):
    """A power of two changes no bit; without one, gradients round elsewhere near float16's zero.

    The outputs that losses are means of have 2^-11 each. In doubles less is rounded on the way.
    """
    expected = losses(found["fixed_scale"])
    for name in ("dynamic_scale", "static_scaler"):
        assert losses(found[name]) == expected, name
    assert losses(found["float16"]) == pytest.approx(expected, rel=2**-11)
    names = ("fixed_scale", "float16")
    exact = collected("training", names, tmp_path, ASCENDC_TWIN_DOUBLES="1")
    scaled, unscaled = (losses(exact[name]) for name in names)
    assert unscaled == pytest.approx(scaled, rel=1e-4)
    assert found["dynamic_scale"] == found["level_O2"]
    assert [step[1:] for step in found["dynamic_scale"]] == [
        *([0, 2.0**10], [0, 2.0**11], [0, 2.0**11], [0, 2.0**12])
    ]
    assert all(step[1:] == [True, 64.0] for step in found["static_scaler"])


def test_overflow(found):
    """Steps whose gradients are not finite change no parameter and halve the scale."""
    steps = found["overflow"]
    assert [step[1:] for step in steps] == [[1, 2.0 ** (39 - i)] for i in range(4)]
    assert steps[:2] == [[loss, *rest] for (loss, *_), (_, *rest) in zip(steps[2:], steps)]
    finite = [step[1] for step in found["dynamic_scaler"]]
    assert finite == [False, True, True, False]
    assert [step[2] for step in found["dynamic_scaler"]] == [2.0**i for i in (10, 10, 20, 10)]


@pytest.mark.parametrize("level", ["O1", "auto"])
def test_levels_that_keep_float32(found, level):
    """The operators of sparse attention take 16 bits there."""
    assert found[f"level_{level}"] == (
        "NativeSparseAttention: x must be of dtype float16 or bfloat16 on Ascend, or the layer "
        "marked so by to_float, got float32"
    )


def test_checkpoint(found):
    restored, kept_on = found["checkpoint"]
    assert restored == kept_on
    assert losses(restored)[0] < losses(found["float16"])[0]


def test_two_networks(found):
    first, second, alone, second_alone = found["two_networks"]
    assert first == alone == losses(found["float16"])[:2]
    assert second == second_alone != first


def test_recompute(found):
    assert found["recomputed"] == [losses(found["float16"])[:2]] * 4
