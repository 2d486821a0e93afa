"""Models of MindSpore's own parts around sparse attention, trained on device Ascend."""

import numpy as np
import pytest

from .judge import collected
from .models import USES


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return collected("models", USES, tmp_path_factory.mktemp("models"))


# Relative errors of losses, which the rounding of 16 bits explains.
TRAINED = {
    "pynative": 1e-3,
    "graph": 1e-3,
    "jit": 1e-2,
    "level_auto": 1e-3,
    "functions_of_mint": 1e-3,
}


@pytest.mark.parametrize("name", TRAINED)
def test_losses(found, name):
    """They are near those of a CPU in float32."""
    expected = USES[name]()
    assert found[name] == pytest.approx(expected, rel=TRAINED[name])
    assert found[name] != expected
    assert expected[-1] < expected[0] - 0.1


@pytest.mark.parametrize("name", ["dropped_in_pynative", "dropped_in_jit"])
def test_dropout_of_a_layer(found, name):
    """Its gradients have the mask of its outputs, and the next call has another."""
    masks = []
    for out, bias in found[name]:
        masks.append(out != 0)
        np.testing.assert_array_equal(bias, 2 * masks[-1].sum((0, 1)))
    for mask in masks:
        assert 0.45 < mask.mean() < 0.55
    assert 0.4 < (masks[0] != masks[1]).mean() < 0.6


def test_dropout_of_mint(found):
    total, gradient = found["dropout_of_mint"]
    assert set(np.unique(gradient)) == {np.float32(0), np.float32(1 / 0.75)}
    assert gradient.sum() == pytest.approx(total, rel=1e-6)


def test_device_changed(found):
    """Plans of calls on the CPU are not those of Ascend."""
    for (before, cpu), (after, ascend) in zip(*found["device_changed"], strict=True):
        assert before == "CPU" and after.startswith("Ascend")
        assert 0 < np.abs(ascend - cpu).max() < 0.01 * np.abs(cpu).max()
