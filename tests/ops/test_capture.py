"""Every way in which mindspore.jit takes a function, and what an error in it leaves behind."""

import subprocess
import sys

import mindspore as ms
import pytest

from . import captures
from .operators import OPERATORS, arguments

OPTIONS = {
    "ast": {"capture_mode": "ast"},
    "bytecode": {"capture_mode": "bytecode"},
    "dynamic": {"dynamic": 1},
    "ms_backend": {"backend": "ms_backend"},
    "GE": {"backend": "GE"},  # on a CPU MindSpore runs it as the other
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_same_bits(options, name):
    constants = arguments(name)
    x = constants.pop(next(iter(constants)))
    function = captures.total(name, constants)
    value, slope = map(captures.bits, ms.value_and_grad(function)(x))
    assert captures.bits(ms.jit(function, **options)(x)) == value
    assert captures.bits(ms.jit(ms.grad(function), **options)(x)) == slope


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_after_an_error(options):
    """A wrong call raises the operator's own error, and right ones go on."""
    constants = arguments("nsa_compress")
    x = constants.pop("input")
    right = captures.total("nsa_compress", constants)
    wrong = captures.total("nsa_compress", {**constants, "compress_block_size": 0})
    expected = captures.bits(right(x))
    for _ in range(2):
        with pytest.raises(ValueError, match="compress_block_size must be at least"):
            ms.jit(wrong, **options)(x)
        assert captures.bits(right(x)) == expected
        assert captures.bits(ms.jit(right, **options)(x)) == expected


def test_trace():
    """In a process of its own: MindSpore goes on tracing after an error."""
    done = subprocess.run(
        [sys.executable, captures.__file__],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [line for line in done.stdout.splitlines() if line.startswith(("SAME", "AFTER", "ERR"))]
    error = "ERROR nsa_compress: compress_block_size must be at least compress_stride (8), got 0"
    again = [error, *(f"AFTER {name}" for name in OPERATORS)]
    assert found == [*(f"SAME {name}" for name in OPERATORS), *again, *again]
