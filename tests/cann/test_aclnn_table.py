"""Each aclnn function of the stand-in by itself: NumPy's answer, and what CANN refuses."""

import os
import subprocess
import sys

import numpy as np
import pytest

from ascendc_twin import _elf
from twin.tests.host.acl import INVALID, SUCCESS, Device, recent_error

from . import aclnn_training  # noqa: F401
from .aclnn_dimensions import BAD_INDEX, cube
from .aclnn_elements import NO_ATTRIBUTE, ROWS
from .calls import LIBRARY, BFloat16, Call, Number, Out, dtype, halves
from .judge import ROOT


@pytest.fixture(scope="module")
def device():
    with Device() as one:
        yield one


def test_table_is_complete():
    """Every function that the library exports has a row."""
    names = _elf.Library(LIBRARY).names()[1]
    end = "GetWorkspaceSize"
    functions = {n[5 : -len(end)] for n in names if n.startswith("aclnn") and n.endswith(end)}
    assert len(functions) > 80
    assert functions == set(ROWS)
    assert {name for name, row in ROWS.items() if not row[3]} == NO_ATTRIBUTE


def call(device, name, arguments):
    one = Call(device, name)
    return one.aclnn(arguments), one


def check(name, got, expected):
    """Floats differ by the roundings of a few steps in float32."""
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected, name)
        return
    scale = np.abs(expected[np.isfinite(expected)]).max()
    np.testing.assert_allclose(got, expected, 4e-7, 4e-7 * scale, err_msg=name)


@pytest.mark.parametrize("name", ROWS)
def test_function(device, name):
    arguments, *wrongs = ROWS[name]
    status, done = call(device, name, arguments)
    assert status == SUCCESS, recent_error()
    for got, (out, _) in zip(done.results(), done.outputs, strict=True):
        check(name, got, out.expected)
    for kind, changed in zip(("shape", "dtype", "attribute"), wrongs):
        if not changed:
            continue
        other = [changed.get(i, value) for i, value in enumerate(arguments)]
        assert call(device, name, other)[0] == INVALID, f"a wrong {kind} is not refused"
        assert f"aclnn{name}" in recent_error()


@pytest.mark.parametrize("name", BAD_INDEX)
def test_index_outside(device, name):
    status, _ = call(device, name, BAD_INDEX[name])
    assert status not in (SUCCESS, INVALID)
    assert "an index is out of range" in recent_error()


def halved(x):
    """An array as bfloat16 holds it, in float32."""
    return (halves(x).astype(np.uint32) << 16).view(np.float32)


def one_result(device, name, arguments):
    status, done = call(device, name, arguments)
    assert status == SUCCESS, recent_error()
    return done.results()[0]


def test_sums_of_halves(device):
    """A sum of float16 is formed in float32, and rounded once."""
    x = np.full((1, 5000), 0.1, np.float16)
    total = one_result(device, "ReduceSum", (x, (1,), False, dtype("float16"), Out(x[:, 0])))
    assert total == np.float16(x.astype(np.float64).sum())
    many = np.full((1, 5000), 0.1, np.float32)
    got = one_result(device, "ReduceSum", (many, (), False, dtype("float32"), Out(many[0, 0])))
    exact = many.astype(np.float64).sum()
    assert got != np.float32(exact) and abs(got - exact) < 1e-6 * exact


def test_products_of_halves(device):
    """The cube adds in float32, one product after the other."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 300), (300, 4)))
    ways = {"float16": np.float16, "bfloat16": halved, "float32": np.float32}
    for name, cast in ways.items():
        x, y = (cast(each).astype(np.float32) for each in (a, b))
        sums = np.zeros((3, 4), np.float32)
        for k in range(300):
            sums += x[:, k, None] * y[k]
        out = np.zeros((3, 4), np.uint16 if name == "bfloat16" else name)
        inputs = [BFloat16(a), BFloat16(b)] if name == "bfloat16" else [cast(a), cast(b)]
        got = one_result(device, "Mm", (*inputs, Out(out, dtype=name), cube(0)))
        expected = halves(sums) if name == "bfloat16" else sums.astype(name)
        np.testing.assert_array_equal(got, expected, name)
        assert (sums != (x.astype(np.float64) @ y)).any()


def test_cube_math_type(device):
    """Float32 keeps 11 bits of mantissa as HF32, 10 as float16."""
    a = np.array([[1 + 2**-11, 1 + 2**-12, 1 + 3 * 2**-12, 1 + 2**-10]], np.float32)
    one = np.eye(4, dtype=np.float32)
    hf32 = [1 + 2**-11, 1, 1 + 2**-10, 1 + 2**-10]
    expected = {0: a[0], 1: hf32, 2: a[0].astype(np.float16), 3: hf32}
    for kind, values in expected.items():
        got = one_result(device, "Mm", (a, one, Out(a), cube(kind)))
        np.testing.assert_array_equal(got[0], values, str(kind))
    status, _ = call(
        device, "Mm", (BFloat16(a), BFloat16(one), Out(halves(a), dtype="bfloat16"), cube(2))
    )
    assert status == INVALID and "cubeMathType 2 does not take bfloat16" in recent_error()


# Inputs of two dtypes, the dtype of CANN's computation.
PROMOTIONS = [
    ("float16", "float32", "float32"),
    ("float16", "int32", "float16"),
    ("int8", "uint8", "int16"),
    ("int64", "int16", "int64"),
    ("bool", "uint8", "uint8"),
]


@pytest.mark.parametrize("a, b, common", PROMOTIONS)
def test_promotion(device, a, b, common):
    """A result is of the common dtype; floats go to no integer, and only bools to a bool."""
    x, y = np.array([1, 0, 3]).astype(a), np.array([2, 1, 1]).astype(b)
    expected = (x.astype(common) * y.astype(common)).astype(common)
    np.testing.assert_array_equal(one_result(device, "Mul", (x, y, Out(expected))), expected)
    np.testing.assert_array_equal(
        one_result(device, "Mul", (x, y, Out(expected.astype(np.float32)))), expected
    )
    refused = np.zeros(3, bool) if common.startswith(("int", "uint")) else np.zeros(3, np.int64)
    status, _ = call(device, "Mul", (x, y, Out(refused)))
    text = recent_error()
    assert status == INVALID and f"the result's, {common}, is not cast" in text
    assert "out is of dtype" in text


DOUBLES = """
import numpy as np
from tests.cann.calls import Call, Out, dtype
from twin.tests.host.acl import Device
x = np.full(5000, 0.1, np.float32)
with Device() as device:
    call = Call(device, "ReduceSum")
    assert call.aclnn((x, (0,), False, dtype("float32"), Out(x[0]))) == 0
    assert call.results()[0] == np.float32(x.astype(np.float64).sum())
"""


def test_doubles():
    """ASCENDC_TWIN_DOUBLES=1 rounds the result alone."""
    environment = {**os.environ, "ASCENDC_TWIN_DOUBLES": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *sys.path])
    subprocess.run([sys.executable, "-c", DOUBLES], env=environment, check=True, timeout=60)


def test_masks_of_dropout(device):
    """A seed and an offset give one mask; another has other bits, and each the asked share."""

    def mask(seed, offset, share):
        out = Out(np.zeros(1024, np.uint8))
        numbers = (Number(seed), Number(offset))
        arguments = ((8192,), share, *numbers, dtype("float32"), out)
        return np.unpackbits(one_result(device, "DropoutGenMaskV2", arguments))

    one = mask(3, 5, 0.25)
    np.testing.assert_array_equal(mask(3, 5, 0.25), one)
    for seed, offset in ((4, 5), (3, 6), (3 + 2**32, 5)):
        assert 0.3 < (mask(seed, offset, 0.25) != one).mean() < 0.45
    assert abs(one.mean() - 0.75) < 0.02 and not mask(3, 5, 1.0).any()
