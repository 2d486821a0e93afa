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


# Shapes of operators that read or write a cache: two rows, 4 heads in 2 groups, D = 32,
# Dv = 16. Further dtypes: 0 float32, 3 int32, 9 int64.
PAIR = "input 27 2 64 2 32\ninput 27 2 64 2 16"
NO_TABLE = "absent\nabsent\ninput 9 2"  # nor a list of queries; lengths
HEADS = "float 0.2\nint 4\nint 2\nint 16\nint 4\nint 64"  # with blocks of 16, and pages
STEP = """\
input 0 2 4 32
input 0 2 6 32
input 0 2 6 16
input 27 2 2 64 48
input 9 2 14
absent
input 0 2 3 4
input 0 8 2
input 0 8 2
input 0 8 2 32
input 0 8 2 16
input 27 2 2 47 48
input 0 1 64
input 0 2048 64"""
STEP_ATTRS = """\
float 0.2
float 10000
float 1
float 0
float 1
int 0
int 8
int 8
int 8
int 4
int 8
int 4
int 1
int 1
string overlap
int 7"""
CACHES = [
    (
        "MsnsaCompressWithCache",
        "input 1 96 2 32\ninput 1 8 2\ninput 9 2\ninput 1 10 2 32\ninput 9 2\nabsent",
        "string TND\nint 8\nint 4\nint 1\nint 128",
        ["1 2 2 32", "1 10 2 32"],
    ),
    (
        "MsnsaSelectedAttentionInfer",
        f"input 27 2 1 4 32\n{PAIR}\ninput 3 2 1 2 4\n{NO_TABLE}",
        f"{HEADS}\nstring BSND",
        ["27 2 1 4 16"],
    ),
    (
        "MsnsaCompressAttentionInfer",
        f"input 27 2 1 4 32\n{PAIR}\n{NO_TABLE}\nabsent",
        f"{HEADS}\nint 8\nint 4\nstring BSND\nint 0\nint 0\nstring cann",
        ["27 2 1 4 16", "3 2 1 2 4"],
    ),
    (
        "MsnsaDecode",
        f"input 27 2 1 4 32\ninput 0 2 1 3 4\n{PAIR}\n{PAIR}\n{PAIR}\nabsent\n{NO_TABLE}",
        "float 0.2\nint 4\nint 8\nint 4\nint 16\nint 4\nint 8\nstring BSND\nstring BSND\n"
        "int 1\nint 1\nstring cann",
        ["27 2 1 4 16"],
    ),
    ("MsnsaCacheStep", STEP, STEP_ATTRS, ["27 2 4 16", "27 2 2 64 48", "9 2 14", "27 2 2 47 48"]),
]
# With a batch, or heads, that the cache does not have.
WRONG_CACHES = [
    (op, inputs.replace(*replaced), attributes, [f"failed {INVALID_STATUS}"])
    for (op, inputs, attributes, _), replaced in zip(
        CACHES,
        [
            ("input 1 10 2 32", "input 1 10 3 32"),
            ("input 3 2 1 2 4", "input 3 2 1 1 4"),
            ("input 27 2 1 4 32", "input 27 2 1 4 48"),
            ("input 0 2 1 3 4", "input 0 2 1 2 4"),
            ("input 27 2 2 47 48", "input 27 2 2 46 48"),
        ],
    )
]


@pytest.mark.parametrize(
    "op, inputs, attributes, outputs",
    [
        *CACHES,
        *WRONG_CACHES,
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
