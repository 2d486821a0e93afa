"""Inference functions of the operators' definitions, whose rules are those of infer/."""

import ctypes

import pytest

from mindspore_nsa import twin
from twin.tests import builds

SOURCE = builds.ROOT / "twin" / "tests" / "host" / "inference.cc"
# Numbers of dtypes: 1 float16, 27 bfloat16.
WINDOWS = "string TND\nint 32\nint 16\nint 0"
GRAD_WINDOWS = "int 32\nint 16\nint 0\nstring TND"
INVALID_STATUS = 50331649


@pytest.fixture(scope="module")
def infer():
    """The function of a type and the text of a call."""
    ctypes.CDLL(twin.library())
    function = ctypes.CDLL(
        str(builds.shared(SOURCE, name="inference", flags=["-fvisibility=default"]))
    ).infer
    function.restype = ctypes.c_char_p
    return function


@pytest.mark.parametrize(
    "op, inputs, attributes, outputs",
    [
        ("MsnsaCompress", "input 1 96 4 32\ninput 1 32 4\nvalues 40 96", WINDOWS, ["1 3 4 32"]),
        ("MsnsaCompress", "input 27 -1 4 32\ninput 27 32 4\nvalues 40 96", WINDOWS, ["27 3 4 32"]),
        (
            "MsnsaCompress",
            "input 1 96 4 32\ninput 1 32 5\nvalues 40 96",
            WINDOWS,
            [f"failed {INVALID_STATUS}"],
        ),
        (
            "MsnsaCompressGrad",
            "input 1 3 4 32\ninput 1 96 4 32\ninput 1 32 4\nvalues 40 96",
            GRAD_WINDOWS,
            ["1 96 4 32", "1 32 4"],
        ),
        (
            "MsnsaCompressGrad",
            "input 1 2 4 32\ninput 1 96 4 32\ninput 1 32 4\nvalues 40 96",
            GRAD_WINDOWS,
            [f"failed {INVALID_STATUS}"],
        ),
    ],
)
def test_inference(infer, op, inputs, attributes, outputs):
    text = infer(op.encode(), f"{inputs}\n{attributes}".encode())
    assert text.decode().splitlines() == outputs
