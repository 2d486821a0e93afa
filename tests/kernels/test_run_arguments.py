"""Arguments of `_native.run`: memory that is not there, thread counts, byte orders."""

import numpy as np
import pytest

from mindspore_nsa import _native
from tests.common.children import python

LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
CALL = """
import numpy as np
from mindspore_nsa import _native
def compress(*threads, rows=4096):
    x = np.ones((rows, 2, 64), np.float32)
    inputs = [x, np.ones((8, 2), np.float32), np.array([rows])]
    return _native.run("NsaCompress", inputs, WINDOW, *threads)[0]
WINDOW = {"compress_block_size": 8, "compress_stride": 4}
"""


def test_a_copy_that_finds_no_memory():
    """64 GiB that only a stride of zero made possible."""
    done = python(
        CALL
        + LIMIT
        + """
inputs = [np.broadcast_to(np.float32(0), (1 << 34, 1, 1)), np.ones((8, 1), np.float32)]
try:
    _native.run("NsaCompress", [*inputs, np.array([1 << 34])], WINDOW)
except MemoryError as error:
    print("MemoryError", error)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("MemoryError")


@pytest.mark.parametrize("threads", [1025, 5000, 10**6, 2**31 - 1, 2**31, 2**70, -1, -(2**70)])
def test_thread_counts_out_of_range(threads):
    done = python(
        CALL
        + f"""
for call in (lambda: compress({threads}), lambda: _native.set_num_threads({threads})):
    try:
        call()
    except ValueError as error:
        print(error)
"""
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for line, name in zip(lines, ("num_threads", "threads"), strict=True):
        assert line.endswith(f" {name} must be between 0 and 1024, got {threads}"), line


@pytest.mark.parametrize("threads", [True, 2.0, "2", None])
def test_thread_counts_of_another_type(threads):
    with pytest.raises(TypeError, match="threads must be an int"):
        _native.set_num_threads(threads)


def test_more_threads_than_memory_allows():
    """The call uses as many as can be started; the runtime would end the process."""
    done = python(
        CALL
        + """
import resource
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (200 << 20)
few = compress(2)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for count in (1000, 3, 1000):
    assert np.array_equal(compress(count), few)
print("same")
"""
    )
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stdout + done.stderr


def test_counts_of_two_callers():
    """A count given to one call is no other's, and leaves the process's alone."""
    before = _native.num_threads()
    _native.set_num_threads(3)
    try:
        x = np.ones((4096, 2, 64), np.float32)
        inputs = [x, np.ones((8, 2), np.float32), np.array([4096])]
        _native.run("NsaCompress", inputs, {"compress_block_size": 8, "compress_stride": 4}, 2)
        assert _native.num_threads() == 3
    finally:
        _native.set_num_threads(0)
    assert _native.num_threads() == before


@pytest.mark.parametrize("dtype", [np.float32, np.float16, "bfloat16"])
def test_other_byte_order(dtype):
    draw = np.random.default_rng(1)
    if dtype == "bfloat16":
        x, weight = (
            (draw.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            for shape in ((16, 2, 3), (4, 2))
        )
    else:
        x, weight = (draw.standard_normal(s).astype(dtype) for s in ((16, 2, 3), (4, 2)))
    attrs = {"compress_block_size": 4, "compress_stride": 2}

    def run(order, lists):
        tensors = [a.astype(a.dtype.newbyteorder(order)) for a in (x, weight)]
        if dtype == "bfloat16":
            tensors = [("bfloat16", a) for a in tensors]
        return _native.run("NsaCompress", [*tensors, np.array([9, 16], lists)], attrs)[0]

    expected, swapped = run("<", "<i8"), run(">", ">i4")
    if dtype == "bfloat16":
        expected, swapped = expected[1], swapped[1]
    np.testing.assert_array_equal(swapped, expected)
