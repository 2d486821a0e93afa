"""Bytes without a value travel with what is computed from them, and count where they decide."""

import re

import numpy as np
import pytest

from twin.tests.harness import AIC_ONLY, AIV_ONLY, INOUT, INPUT, OUTPUT, WORKSPACE

FIFTH, WHOLE = 1 << 5, (1 << 64) - 1  # elements without a value, as bits


def launch(run, kernel, bits=FIFTH, lies=7.1, number=0, out=None, role=OUTPUT):
    """`run` is a library's launch or carry; `lies` is what is found where nothing was written."""
    out = np.zeros(64, np.float32) if out is None else out
    buffers = [(role, out), (INOUT, np.zeros(64, np.float32))]
    buffers.append((WORKSPACE, np.zeros(64, np.float32)))
    lying = int(np.float32(lies).view(np.uint32))
    return run(kernel, buffers, [np.uint64(bits).view(np.int64), lying, number], type=AIV_ONLY), out


# Kernel and number, elements without a value in x, and the bytes of y that depend on them.
CARRIED = {
    "binary": (0, FIFTH, [(20, 24)]),
    "strided": (0, FIFTH | 1 << 60, [(20, 24)]),
    "in_place": (0, 1 << 63 | 1, [(0, 4), (252, 256)]),
    "into_dst": (0, FIFTH, [(20, 24)]),
    "of_dst": (0, FIFTH, [(20, 24)]),
    "narrowed": (0, FIFTH, [(10, 12)]),
    "widened": (0, FIFTH, [(40, 48)]),
    "copied": (0, FIFTH, [(20, 24)]),
    "moved": (0, FIFTH, [(20, 24)]),
    "broadcast_blocks": (0, FIFTH, [(160, 192)]),
    "gathered": (0, FIFTH, [(232, 236)]),
    "gathered_blocks": (0, FIFTH, [(244, 248)]),
    "packed": (2, FIFTH | 1 << 8, [(8, 12)]),
    "selected": (0, 1 << 4 | FIFTH, [(16, 20)]),
    "selected_or_scalar": (0, 1 << 4 | FIFTH, [(16, 20)]),
    "summed": (0, FIFTH, [(0, 4)]),
    "summed_blocks": (0, 1 << 9, [(4, 8)]),
    "summed_pairs": (0, FIFTH, [(8, 12)]),
    "summed_all": (0, FIFTH, [(0, 4)]),
    "largest_blocks": (0, 1 << 9, [(4, 8)]),
    "largest_all": (0, FIFTH, [(0, 8)]),
    "transposed": (0, FIFTH | 1 << 1 | 1 << 9, [(64, 68), (96, 100)]),
    "transposed_blocks": (0, FIFTH | 1 << 1 | 1 << 9, [(64, 68), (96, 100)]),
    "softmaxed": (0, 1 << 20 | 1 << 46, [(64, 128), (184, 188)]),
    "softmax_sums": (0, 1 << 20 | 1 << 46, [(32, 64)]),
    "row_sums": (0, 1 << 20 | FIFTH, [(0, 8)]),
    "largest_of_columns": (0, 1 << 17 | FIFTH, [(4, 8), (20, 24)]),
    "dropped": (0, 1 << 4 | FIFTH, [(16, 20)]),
    "masked": (0, 1 << 4 | FIFTH, [(16, 20)]),
    "transposed_matrix": (0, 1 << 17 | FIFTH, [(68, 72)]),
    "broadcast": (0, FIFTH, [(20, 24), (148, 152)]),
    "through_memory": (0, FIFTH, [(20, 24)]),
    "tail": (6, FIFTH | 1 << 6, [(20, 24)]),
}


@pytest.mark.parametrize("kernel", CARRIED)
def test_results(kernels, kernel):
    """Differences where something else lies in x are what is said to hold no value."""
    number, bits, expected = CARRIED[kernel]
    report, out = launch(kernels.carry, kernel, bits, number=number)
    begin, end = expected[0]
    assert f"uninitialised output: bytes [{begin}, {end}) of buffer 0" in report.error
    assert "comes from bytes that nothing was written to when" in report.error
    assert report.unwritten[0] == sum(end - begin for begin, end in expected)
    other = launch(kernels.carry, kernel, bits, lies=9.3, number=number)[1]
    differ = np.flatnonzero(out.view(np.uint8) != other.view(np.uint8))
    assert all(any(b <= at < e for b, e in expected) for at in differ)
    if kernel != "largest_all":
        assert all(any(b <= at < e for at in differ) for b, e in expected)
    strict = launch(kernels.launch, kernel, bits, number=number)[0]
    assert "uninitialised read: nothing was written to" in strict.error


# Kernels whose stored result depends on none of the elements without a value.
HARMLESS = {
    "strided": (0, 1 << 60),
    "overwritten": (0, FIFTH),
    "packed": (1, FIFTH),
    "selected": (0, FIFTH),
    "selected_or_scalar": (0, FIFTH | 1 << 63),
    "dropped": (0, FIFTH),
    "masked": (0, FIFTH | 1 << 63),
    "transposed_matrix": (0, FIFTH),
    "tail": (40, WHOLE ^ (1 << 40) - 1),
    "stored_twice": (0, WHOLE ^ (1 << 32) - 1),
}


@pytest.mark.parametrize("kernel", HARMLESS)
def test_harmless(kernels, kernel):
    number, bits = HARMLESS[kernel]
    report, out = launch(kernels.carry, kernel, bits, number=number)
    assert report.ok and report.warnings == [], report.error
    assert (out == launch(kernels.carry, kernel, bits, lies=9.3, number=number)[1]).all()
    if kernel == "overwritten":
        assert "uninitialised read" in launch(kernels.launch, kernel, bits)[0].error


COUNTS = {
    "scalar": "GetValue",
    "scalar_of_result": "GetValue",
    "scalar_of_sum": "GetReduceRepeatMaxMinSpr",
    "offset": "Gather",
    "offset_of_blocks": "Gatherb",
    "pattern": "GatherMask",
    "compared": "Compare",
    "compared_scalar": "CompareScalar",
    "compared_to_register": "Compare",
    "choice": "Select",
    "sorted": "Sort32",
}


@pytest.mark.parametrize("kernel", COUNTS)
def test_where_a_value_counts(kernels, kernel):
    bits = 3 if kernel in ("pattern", "choice", "offset") else FIFTH
    report = launch(kernels.carry, kernel, bits, lies=0.0)[0]
    assert re.search(rf"{COUNTS[kernel]}(\(.*\))?: uninitialised read", report.error), report.error
    if kernel == "scalar_of_result":
        assert re.search(r"since Adds at .*vector.cc:\d+ read bytes that nothing", report.error)


def test_memory(kernels):
    for times in (1, 2):
        report = launch(kernels.carry, "added_up", number=times)[0]
        assert "uninitialised output: bytes [20, 24) of buffer 1" in report.error
    # An output is none that holds nothing and is added to.
    report = launch(kernels.carry, "added_to_nothing", 0)[0]
    assert "DataCopy(" in report.error and "uninitialised read" in report.error
    # One element is left of the tail that the second store replaces.
    report = launch(kernels.carry, "stored_twice", WHOLE ^ (1 << 32) - 1, number=1)[0]
    assert "uninitialised output: bytes [128, 256) of buffer 0" in report.error
    assert report.unwritten[0] == 4
    # In a workspace nothing counts.
    assert launch(kernels.carry, "moved", role=WORKSPACE)[0].ok


def product(run, rows, depth, stored, products=1):
    rng = np.random.default_rng(3)
    a = rng.integers(-4, 5, (16, 32)).astype(np.float16)
    b = rng.integers(-4, 5, (32, 32)).astype(np.float16)
    c = np.zeros((16, 32), np.float32)
    buffers = [(INPUT, a), (INPUT, b), (OUTPUT, c)]
    report = run("product", buffers, [rows, depth, *stored, products], type=AIC_ONLY)
    return report, c, a.astype(np.float32) @ b.astype(np.float32)


def test_products(kernels):
    """A lacks half of K from row 5 on, or B the columns from 16 on."""
    for rows, depth, stored in ((5, 32, (5, 32)), (16, 16, (16, 16))):
        report, c, expected = product(kernels.carry, rows, depth, stored)
        assert report.ok and report.warnings == [], report.error
        part = tuple(slice(n) for n in stored)
        assert (c[part] == expected[part]).all()
        assert "Mmad" in product(kernels.launch, rows, depth, stored)[0].error
    for products in (1, 2):
        report = product(kernels.carry, 5, 32, (16, 32), products)[0]
        assert "Fixpipe: uninitialised output: bytes [640, 2048)" in report.error
        report = product(kernels.carry, 16, 16, (16, 32), products)[0]
        assert "bytes [64, 128)" in report.error and report.unwritten[2] == 16 * 16 * 4
