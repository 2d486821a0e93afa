"""A kernel that is a template, its instances chosen by tiling keys (ASCENDC_TPL)."""

import ctypes

import numpy as np
import pytest

from . import acl
from .acl import RT_AICORE_EXCEPTION, SUCCESS, TILING, Device, recent_error
from .operators import HERE, generate
from .operators import library as build_library

SOURCE = HERE / "scale_by_key" / "op_host" / "scale_by_key.cpp"
ND, NCHW = 2, 0


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("templates")
    done = generate(folder, SOURCE)
    assert done.returncode == 0, done.stderr
    loaded = ctypes.CDLL(str(build_library(folder, "scale_by_key", SOURCE)))
    loaded.ScaleByKeyOf.restype = ctypes.c_uint64
    return loaded


@pytest.fixture
def scale(library):
    with Device() as device:

        def run(dtype, factor, negate=False, form=ND):
            x = np.arange(-32, 32).astype(dtype)
            y = device.malloc(x.nbytes)
            size, executor = ctypes.c_uint64(), acl.handle()
            status = library.aclnnScaleByKeyGetWorkspaceSize(
                device.tensor(device.put(x), x.shape, x.dtype),
                ctypes.c_int64(factor),
                ctypes.c_bool(negate),
                ctypes.c_int64(form),
                device.tensor(y, x.shape, x.dtype),
                ctypes.byref(size),
                ctypes.byref(executor),
            )
            if status != SUCCESS:
                return status
            workspace = device.malloc(size.value)
            status = library.aclnnScaleByKey(workspace, size, executor, device.stream)
            status = status or device.synchronize()
            return device.get(y, x.shape, dtype) if status == SUCCESS else status

        yield run


def test_keys(library):
    """8 bits of dtype, 4 with the place of the factor among its values, 1, 8 of format."""
    places = {1: 0, 2: 1, 3: 2, 5: 3, 6: 4, 20: 5, 10: 6}
    for factor, place in places.items():
        for negate in (0, 1):
            key = library.ScaleByKeyOf(*map(ctypes.c_uint64, (27, factor, negate, NCHW)))
            assert key == 27 | place << 8 | negate << 12
    assert library.ScaleByKeyOf(*map(ctypes.c_uint64, (1, 1, 0, ND))) == 1 | ND << 13
    for wrong, text in (
        ((1, 4, 0, ND), "FACTOR is 4, which is not declared"),
        ((1, 1, 2, ND), "NEGATE is 2, which does not fit in 1 bits"),
        ((300, 1, 0, ND), "T is 300, which does not fit in 8 bits"),
    ):
        assert library.ScaleByKeyOf(*map(ctypes.c_uint64, wrong)) == 2**64 - 1
        assert text in recent_error()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_instances(scale, dtype):
    x = np.arange(-32, 32).astype(dtype)
    for factor in (2, 3):
        for negate in (False, True):
            assert np.array_equal(
                scale(dtype, factor, negate), x * dtype(-factor if negate else factor)
            )


def test_instances_of_one_dtype(scale):
    """A selection that stands under #if, lists, a second format."""
    x = np.arange(-32, 32).astype(np.float32)
    assert np.array_equal(scale(np.float32, 10), x * 10)
    assert np.array_equal(scale(np.float32, 6, form=NCHW), x * 106)


@pytest.mark.parametrize(
    "values",
    [(np.float16, 10), (np.float32, 1), (np.float32, 10, True), (np.float16, 2, False, NCHW)],
    ids=str,
)
def test_combinations_that_are_not_selected(scale, values):
    assert scale(*values) == RT_AICORE_EXCEPTION
    assert "stands for no combination of ASCENDC_TPL_SEL" in recent_error()


def test_deterministic_instances_are_not_built(scale):
    assert scale(np.float16, 20) == RT_AICORE_EXCEPTION


def test_value_that_is_not_declared(scale):
    assert scale(np.float16, 4) == TILING
