"""The kernels narrow no number that does not fit: not in braces, which CANN's compiler refuses, and
in a cast not at run time."""

import ctypes

import pytest

from twin.tests import builds

from .launch import Result

RUNNERS = (
    "runner",
    "cache_runner",
    "flash_runner",
    "selected_runner",
    "selected_infer_runner",
    "compress_infer_runner",
    "cache_step_runner",
    "decode_runner",
    "compress_attention_runner",
)
TYPES = {"uint8": (0, 2**8), "uint16": (0, 2**16), "int16": (-(2**15), 2**15)}
TYPES |= {"uint32": (0, 2**32), "int32": (-(2**31), 2**31)}


@pytest.mark.parametrize("runner", RUNNERS)
def test_fields_as_cann_declares_them(runner):
    source = builds.ROOT / "tests" / "ascendc" / f"{runner}.cc"
    builds.accepted(source, ("-DTWIN_FIELDS_AS_CANN",))


@pytest.fixture(scope="module")
def narrow():
    source = builds.ROOT / "tests" / "ascendc" / "narrowing.cc"
    function = ctypes.CDLL(str(builds.shared(source, name="narrowing"))).narrow
    function.argtypes, function.restype = [ctypes.c_int64] * 2 + [ctypes.c_void_p], ctypes.c_int64
    return function


@pytest.mark.parametrize("name", TYPES)
def test_casts_that_lose_something_are_errors(narrow, name):
    """In the kernels as the tests of this folder compile them."""
    least, end = TYPES[name]
    for value, fits in ((least, True), (end - 1, True), (least - 1, False), (end, False)):
        result = Result()
        cast = narrow(value, list(TYPES).index(name), ctypes.byref(result))
        error = result.error.decode()
        if fits:
            assert (cast, error) == (value, "")
        else:
            assert f"narrowing.cc:10, AIV 0: static_cast: {value} does not fit in" in error
