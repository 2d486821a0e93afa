"""Rules and outputs of NsaDropoutMask."""

import pytest

NAME = "NsaDropoutMask"


@pytest.mark.parametrize(
    "numel, size", [(0, 0), (1, 1), (8, 1), (9, 2), (1001, 126), (2**40, 2**37)]
)
def test_outputs(good, numel, size):
    assert good(NAME).but(numel=numel).infer() == [("uint8", (size,))]


def test_errors(good):
    good(NAME).but(numel=-1).fails(ValueError, "numel", ">= 0", -1)
    good(NAME).typed("seed", "int32").fails(TypeError, "seed", "int64", "int32")
    good(NAME).shaped("seed", (2,)).fails(ValueError, "seed", (1,), (2,))


@pytest.mark.parametrize("value", [0.0, -0.5, 1.25, float("nan"), float("inf"), 1e-39])
def test_keep_prob(good, value):
    good(NAME).but(keep_prob=value).fails(ValueError, "keep_prob", "(0, 1]", f"{value:g}")
