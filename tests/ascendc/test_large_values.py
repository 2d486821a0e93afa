"""Values near the largest float32 on Ascend: what docs/limits.md promises of them."""

import numpy as np
import pytest

from mindspore_nsa import _native
from mindspore_nsa.testing.dtypes import decode
from tests.common.cases import compare
from tests.common.large_values import with_large_values

from .attention_cases import lengths as flash_lengths
from .attention_cases import make_flash_case
from .compress_attention_cases import make_case as make_compress_case
from .selected_cases import make_selected_case

LARGEST = float(np.finfo(np.float32).max)


def most_keys(case):
    """Keys that a row reads at most; those of a block that is chosen twice count twice."""
    if case.op == "NsaSelectedAttention":
        return case.attrs["select_block_size"] * case.attrs["select_block_count"]
    return max(keys for _, keys in flash_lengths(case))


def cases(make, wanted=12):
    """Random calls whose dtype has such values, the smaller ones."""
    found = []
    for seed in range(200):
        case = make(seed)
        sizes = [np.size(decode(case.named()[name])) for name in ("query", "value")]
        if case.op == "NsaCompressAttention" and case.named()["actual_cmp_seq_kvlen"] is None:
            continue  # Ascend wants it
        if case.dtype != "float16" and max(sizes) < 30_000:
            found.append(case)
        if len(found) == wanted:
            return found
    raise AssertionError(f"{len(found)} calls of {wanted}")


def run(case):
    return _native.run(case.op, case.inputs, case.attrs, target="ascend_twin")


@pytest.mark.parametrize("make", [make_flash_case, make_selected_case])
def test_as_many_times_a_value_as_there_are_keys(make):
    checked = 0
    for case in cases(make):
        if most_keys(case) == 0:
            continue
        # Rounding to bfloat16 may add one part in 256.
        case = with_large_values(case, LARGEST / most_keys(case) * (1 - 2.0**-7))
        compare(case, run(case))
        checked += 1
    assert checked >= 8


def test_compressed_attention_adds_parts_of_values():
    for case in cases(make_compress_case):
        case = with_large_values(case)
        compare(case, run(case))


@pytest.mark.parametrize("make", [make_flash_case, make_selected_case])
def test_the_bound_is_that_of_the_sum(make):
    """Where all keys count alike, a value of twice that is too large."""
    met = 0
    for case in cases(make):
        keys = most_keys(case)
        if keys < 4:
            continue
        case = with_large_values(case, LARGEST / 4)
        out = decode(run(case)[0])
        met += not np.isfinite(out).all()
    assert met > 0
