"""Operators of CANN's own on the twin, without MindSpore: values, and what they refuse."""

import ctypes

import numpy as np
import pytest

from twin.tests.host.acl import (
    DTYPES,
    INVALID,
    SUCCESS,
    Device,
    handle,
    recent_error,
)

from .calls import Call, Out, own

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


def test_unknown_type_is_named(device):
    status = Call(device, "Erfinv").aclop([values(3)], {}, [Out(values(3))])
    assert status == NOT_SUPPORTED
    assert "MindSpore asked CANN for the operator Erfinv" in recent_error()
