"""Operators of CANN's own on the twin, without MindSpore: values, and what they refuse."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

import ascendc_twin
from twin.tests.host.acl import (
    DTYPES,
    FORMAT_ND,
    INVALID,
    SUCCESS,
    Device,
    handle,
    ints,
    recent_error,
)

own = ctypes.CDLL(str(Path(ascendc_twin.library()).parent / "cann" / "libopapi.so"))
for name in ("aclCreateTensorDesc", "aclCreateDataBuffer", "aclopCreateAttr"):
    getattr(own, name).restype = ctypes.c_void_p
NOT_SUPPORTED = 207000


@pytest.fixture
def device():
    with Device() as one:
        yield one


def values(*shape, dtype=np.float32):
    return np.random.default_rng(shape).integers(-9, 10, shape).astype(dtype)


def call(device, name, *arguments):
    """Both phases of an aclnn function; the status of the first that is not success."""
    size, executor = ctypes.c_uint64(), handle()
    prepare = getattr(own, f"aclnn{name}GetWorkspaceSize")
    status = prepare(*arguments, ctypes.byref(size), ctypes.byref(executor))
    if status != SUCCESS:
        return status
    return getattr(own, f"aclnn{name}")(None, size, executor, device.stream)


def placed(device, *arrays):
    """(memory, tensor) of each."""
    found = []
    for array in arrays:
        memory = device.put(array)
        found.append((memory, device.tensor(memory, array.shape, array.dtype)))
    return found


def test_values(device):
    a, b = values(3, 4), values(4)
    (_, x), (_, y), (memory, out) = placed(device, a, b, np.zeros((3, 4), np.float32))
    assert call(device, "Mul", x, y, out) == SUCCESS
    assert device.synchronize() == SUCCESS
    assert np.array_equal(device.get(memory, (3, 4), np.float32), a * b)


def test_wrong_shape_is_named(device):
    (_, x), (_, y), (_, out) = placed(device, values(3, 4), values(3, 4), values(3, 5))
    assert call(device, "Mul", x, y, out) == INVALID
    text = recent_error()
    assert "aclnnMul" in text and "out must be float32 (3, 4), got float32 (3, 5)" in text
    (_, y) = placed(device, values(2, 4))[0]
    assert call(device, "Mul", x, y, out) == INVALID and "aclnnMul" in recent_error()


def test_unknown_dtype_is_named(device, monkeypatch):
    monkeypatch.setitem(DTYPES, "complex64", 16)
    (_, x), (_, out) = placed(device, values(3, 4, dtype=np.complex64), values(3, 4))
    assert call(device, "Neg", x, out) == INVALID
    assert "self has a dtype that this operator of the twin does not know" in recent_error()


def test_null_is_named(device):
    ((_, x),) = placed(device, values(3, 4))
    assert call(device, "Mul", x, None, x) == INVALID
    assert "other must not be null" in recent_error()


def test_freed_tensor(device):
    """Memory that is gone when the stream reaches the operator is an error there."""
    (_, x), (memory, y), (_, out) = placed(device, values(3, 4), values(3, 4), values(3, 4))
    assert call(device, "Mul", x, y, out) == SUCCESS
    assert device.free(memory) == SUCCESS
    assert device.synchronize() != SUCCESS
    text = recent_error()
    assert "aclnnMul" in text and "other" in text, text


@pytest.mark.parametrize("spoiled, finite", [(None, True), (np.inf, False), (np.nan, False)])
def test_all_finite(device, spoiled, finite):
    """One flag for several gradients, which keeps what it was."""
    first, second = values(3, 4), values(5)
    if spoiled is not None:
        first[1, 2] = spoiled
    (_, x), (_, y), (memory, flag) = placed(device, first, second, np.zeros(1, np.bool_))
    for gradient in (x, y):
        assert call(device, "AllFinite", gradient, flag) == SUCCESS
    assert device.synchronize() == SUCCESS
    assert device.get(memory, 1, np.bool_)[0] == (not finite)


def by_type(device, op, inputs, outputs):
    """An operator that is called by its type; the arrays that its outputs are then."""
    descriptions, buffers = [], []
    memories = [device.put(array) for array in (*inputs, *outputs)]
    for array, memory in zip((*inputs, *outputs), memories):
        made = own.aclCreateTensorDesc(
            DTYPES[str(array.dtype)], array.ndim, ints(array.shape), FORMAT_ND
        )
        descriptions.append(made)
        buffers.append(own.aclCreateDataBuffer(memory, ctypes.c_size_t(array.nbytes)))
    n, attributes = len(inputs), ctypes.c_void_p(own.aclopCreateAttr())
    array_of = lambda found: (ctypes.c_void_p * len(found))(*found)  # noqa: E731
    status = own.aclopCompileAndExecute(
        *(op.encode(), n, array_of(descriptions[:n]), array_of(buffers[:n])),
        *(len(outputs), array_of(descriptions[n:]), array_of(buffers[n:])),
        *(attributes, 0, 0, None, device.stream),
    )
    if status == SUCCESS:
        assert device.synchronize() == SUCCESS, recent_error()
    found = [device.get(m, a.shape, a.dtype) for m, a in zip(memories, (*inputs, *outputs))]
    own.aclopDestroyAttr(attributes)
    for description, buffer in zip(descriptions, buffers):
        own.aclDestroyTensorDesc(ctypes.c_void_p(description))
        own.aclDestroyDataBuffer(ctypes.c_void_p(buffer))
    return status, found


def test_momentum(device):
    """It gives the weight, and writes the accumulator."""
    weight, kept, gradient = values(3, 4), values(3, 4) + 1, values(3, 4) + 2
    rate, momentum = np.float32([0.5]), np.float32([0.25])
    inputs = weight, kept, rate, gradient, momentum
    status, (_, accumulator, *_, out) = by_type(device, "ApplyMomentum", inputs, [weight])
    assert status == SUCCESS
    expected = 0.25 * kept + gradient
    assert np.array_equal(accumulator, expected)
    assert np.array_equal(out, weight - 0.5 * expected)


def test_biases(device):
    x, bias = values(3, 4), values(4)
    assert np.array_equal(by_type(device, "BiasAdd", [x, bias], [x])[1][-1], x + bias)
    assert np.array_equal(by_type(device, "BiasAddGrad", [x], [bias])[1][-1], x.sum(0))


def test_unknown_type_is_named(device):
    status, _ = by_type(device, "Erfinv", [values(3)], [values(3)])
    assert status == NOT_SUPPORTED
    assert "MindSpore asked CANN for the operator Erfinv" in recent_error()
